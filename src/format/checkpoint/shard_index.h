// The index of a model of several files (*.safetensors.index.json). It maps each tensor to its file, the shard.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bump_allocator.h"
#include "base/cancellation.h"
#include "base/chunked_vector.h"
#include "base/hash.h"
#include "base/memory_resource.h"
#include "format/header/name_index.h"

namespace safetensors::format {

// Limit for the size of an index. The largest index seen by 2026 has 23.5 MB, less than a tenth of it.
inline constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{256} << 20;

// Immutable after parse(), so thread-safe.
class ShardIndex {
 public:
  static constexpr std::uint32_t kNone = NameIndex::kNone;

  struct Entry {
    std::string_view tensor;
    std::uint32_t shard;
    std::uint32_t offset;  // in the text, of the opening quote of the tensor's name
  };

  // text: `size` bytes and then json::Reader::kPadding zeros. size must be at most kMaxIndexBytes. The index points
  // into the text. Memory: at most 4 * size + 64 KiB for any text, the text included. Errors: invalid_index with an
  // offset in the text, and cancelled. cancellation: may be null. Throws std::bad_alloc.
  [[nodiscard]] static Result<std::unique_ptr<const ShardIndex>> parse(std::unique_ptr<char[]> text, std::size_t size,
                                                                       base::Cancellation* cancellation = nullptr);

  // The shards in the order of their names, each once. Every name passes check_shard_name().
  [[nodiscard]] std::uint32_t shard_count() const noexcept { return shard_count_; }
  [[nodiscard]] std::string_view shard(std::uint32_t index) const noexcept { return view(shards_[index]); }
  // The entries in the order of the text.
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] Entry operator[](std::size_t entry) const noexcept {
    const Stored& stored = entries_[entry];
    return {view(stored.tensor), stored.shard, stored.tensor.start - 1};
  }
  // Indexes of the entries of one shard, ascending.
  [[nodiscard]] std::span<const std::uint32_t> of_shard(std::uint32_t shard) const noexcept {
    return {by_shard_.get() + begin_[shard], by_shard_.get() + begin_[shard + 1]};
  }
  // Returns the index of the entry of a tensor, or kNone.
  [[nodiscard]] std::uint32_t find(std::string_view tensor) const noexcept;
  // The member `metadata` if it is an object, without white space, else an empty text. If it is repeated, the last one
  // counts.
  [[nodiscard]] const std::string& metadata() const noexcept { return metadata_; }
  // metadata.total_size, if it is an integer from 0 to 2^64-1.
  [[nodiscard]] std::optional<std::uint64_t> total_size() const noexcept { return total_size_; }
  // Whether metadata has a member total_size, of any kind.
  [[nodiscard]] bool has_total_size() const noexcept { return has_total_size_; }
  // Number of members of the index beside metadata and weight_map.
  [[nodiscard]] std::size_t other_members() const noexcept { return other_members_; }
  // Number of slots read while the names were indexed. See NameIndex::probes().
  [[nodiscard]] std::uint64_t probes() const noexcept { return names_.probes(); }

 private:
  friend class IndexParser;
  explicit ShardIndex(std::unique_ptr<char[]> text) noexcept;

  // A TextRange has half the size of a std::string_view, which keeps the memory below the limit.
  struct Stored {
    TextRange tensor;  // starts after the opening quote
    std::uint32_t shard;
  };
  [[nodiscard]] std::string_view view(TextRange range) const noexcept {
    return {text_.get() + range.start, range.size};
  }
  // inside: must point into the text.
  [[nodiscard]] TextRange range(std::string_view inside) const noexcept {
    return {static_cast<std::uint32_t>(inside.data() - text_.get()), static_cast<std::uint32_t>(inside.size())};
  }

  std::unique_ptr<char[]> text_;
  std::string metadata_;
  std::optional<std::uint64_t> total_size_;
  bool has_total_size_ = false;
  std::size_t other_members_ = 0;
  base::HashKey hash_key_ = base::HashKey::random();
  base::BumpAllocator allocator_;
  base::ChunkedVector<Stored> entries_;
  NameIndex names_;
  std::uint32_t shard_count_ = 0;
  std::unique_ptr<TextRange[]> shards_;
  std::unique_ptr<std::uint32_t[]> by_shard_;  // indexes of entries, grouped by shard
  std::unique_ptr<std::uint32_t[]> begin_;     // where each shard begins in by_shard_, and the end of by_shard_
};

// Checks the name of a shard. Returns nullptr if the library may open the file, else a static text with the reason. The
// rules of POSIX and Windows both apply on every system. So a good name is good everywhere, stays inside the folder of
// the index, and is printable. It has no `.` and no empty part: otherwise a small index could make the library open one
// file under any number of names.
[[nodiscard]] const char* check_shard_name(std::string_view name) noexcept;

}  // namespace safetensors::format
