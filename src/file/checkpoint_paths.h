// What the paths given to Checkpoint::open stand for.
#pragma once

#include <safetensors/error.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/cancellation.h"
#include "format/shard_index.h"

namespace safetensors::file {

struct IndexFile {
  std::string path;
  std::string folder;  // of its files; empty or with its separator at the end
  std::unique_ptr<const format::ShardIndex> shards;
};

// Files in order. Those of an index have no path of their own until it is asked for: an index may name millions.
class CheckpointPaths {
 public:
  struct Part {
    const IndexFile* index;  // nullptr: all of the file's tensors
    std::uint32_t number;    // of the index's shard, or of plain_
  };

  // cancellation: must outlive this.
  explicit CheckpointPaths(base::Cancellation& cancellation) noexcept : cancellation_(cancellation) {}

  // Errors: those of Checkpoint::open that do not need a file's header. Throws std::bad_alloc.
  Status add(const std::string& path);

  [[nodiscard]] std::size_t size() const noexcept { return parts_.size(); }
  [[nodiscard]] const Part& operator[](std::size_t part) const noexcept { return parts_[part]; }
  [[nodiscard]] std::string path(const Part& part) const;

 private:
  Status add_existing(const std::string& path, bool folder);
  Status add_folder(const std::string& path);
  Status add_index(const std::string& path);
  void add_file(const std::string& path);

  base::Cancellation& cancellation_;
  std::vector<std::unique_ptr<const IndexFile>> indexes_;
  std::vector<std::string> plain_;
  std::vector<Part> parts_;
};

}  // namespace safetensors::file
