// The index of a model of several files (*.safetensors.index.json): which tensor is in which file.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string_view>
#include <vector>

#include "base/arena.h"
#include "base/cancellation.h"
#include "base/chunked.h"
#include "base/hash.h"
#include "format/name_index.h"

namespace safetensors::format {

inline constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{1} << 30;

class ShardIndex {
 public:
  static constexpr std::uint32_t kNone = NameIndex::kNone;

  struct Entry {
    std::string_view tensor;
    std::uint32_t shard;  // of shards()
    std::uint32_t at;     // byte of the text where the tensor's name begins
  };

  // text: size bytes and then json::Reader::kPadding zeros; size is at most kMaxIndexBytes. What is made points into
  // it. Memory: at most 4 x text + 1 MiB besides it. Errors: invalid_index, with the byte; cancelled. cancellation: may
  // be null. Throws std::bad_alloc.
  [[nodiscard]] static Result<std::unique_ptr<const ShardIndex>> parse(std::unique_ptr<char[]> text, std::size_t size,
                                                                       base::Cancellation* cancellation = nullptr);

  // By the bytes of their names, each once. Every one passes check_shard_name.
  [[nodiscard]] const std::vector<std::string_view>& shards() const noexcept { return shards_; }
  // As the text has them.
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] const Entry& operator[](std::size_t entry) const noexcept { return entries_[entry]; }
  // The entries of one shard, ascending.
  struct Range {
    const std::uint32_t* first;
    const std::uint32_t* last;
    [[nodiscard]] const std::uint32_t* begin() const noexcept { return first; }
    [[nodiscard]] const std::uint32_t* end() const noexcept { return last; }
    [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(last - first); }
  };
  [[nodiscard]] Range of_shard(std::uint32_t shard) const noexcept {
    return {by_shard_.data() + begin_[shard], by_shard_.data() + begin_[shard + 1]};
  }
  // The entry of that name, or kNone.
  [[nodiscard]] std::uint32_t find(std::string_view tensor) const noexcept;

 private:
  friend class IndexParser;
  ShardIndex(std::unique_ptr<char[]> text, std::size_t size);

  std::unique_ptr<char[]> text_;
  base::HashKey hash_key_ = base::HashKey::random();
  base::Arena arena_;
  base::Chunked<Entry> entries_;
  NameIndex names_;
  std::vector<std::string_view> shards_;
  std::vector<std::uint32_t> by_shard_;  // entries, shard after shard
  std::vector<std::uint32_t> begin_;     // of each shard in by_shard_, and the end
};

// nullptr when the name may be opened beside the index, else why not. Judged by the rules of POSIX and of Windows,
// wherever this runs: a name that is good here is good everywhere, and leads into the index's own folder.
[[nodiscard]] const char* check_shard_name(std::string_view name) noexcept;

}  // namespace safetensors::format
