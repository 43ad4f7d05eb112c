// Finds the files for the paths given to Checkpoint::open.
#pragma once

#include <safetensors/error.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/cancellation.h"
#include "format/checkpoint/model_names.h"
#include "format/checkpoint/shard_index.h"

namespace safetensors::file {

// Reads an index. Errors: those of opening and reading a file, invalid_index, cancelled. Throws std::bad_alloc.
[[nodiscard]] Result<std::unique_ptr<const format::ShardIndex>> read_index(const std::string& path,
                                                                           base::Cancellation& cancellation);

// Returns the folder of the model that a folder stands for. For a folder `models--ORG--NAME` of the cache of
// huggingface_hub, that is the snapshot that refs/main names, or the only one; otherwise, it is the folder itself.
// Errors: ambiguous_checkpoint (several snapshots), those of os::list_directory(). Throws std::bad_alloc.
[[nodiscard]] Result<std::string> snapshot_of(const std::string& folder);

struct IndexFile {
  std::string path;
  std::string folder;  // folder of the shards; empty, or ends with a separator
  std::unique_ptr<const format::ShardIndex> shards;
};

// The files, in order. A shard's path is made only on request, because an index may name millions of shards.
class CheckpointPaths {
 public:
  struct Part {
    const IndexFile* index;  // null: all tensors of the file are visible
    std::uint32_t file;      // index of the shard in `index`, or of the path in plain_
  };

  // cancellation: must outlive this.
  explicit CheckpointPaths(base::Cancellation& cancellation) noexcept : cancellation_(cancellation) {}

  // Errors: the errors of Checkpoint::open that do not concern the header of a file. Throws std::bad_alloc.
  Status add(const std::string& given);

  [[nodiscard]] std::size_t size() const noexcept { return parts_.size(); }
  [[nodiscard]] const Part& operator[](std::size_t part) const noexcept { return parts_[part]; }
  [[nodiscard]] std::string path(const Part& part) const;
  // Returns the first index, or nullptr if there is none.
  [[nodiscard]] const IndexFile* index() const noexcept { return indexes_.empty() ? nullptr : indexes_[0].get(); }

 private:
  Status add_one(const std::string& path);
  Status add_folder(const std::string& given);
  Status add_index(const std::string& path);
  bool index_counts(const std::string& folder, const format::ModelFiles& model) const;
  void add_file(const std::string& path);

  base::Cancellation& cancellation_;
  std::vector<std::unique_ptr<const IndexFile>> indexes_;
  std::vector<std::string> plain_;
  std::vector<Part> parts_;
};

}  // namespace safetensors::file
