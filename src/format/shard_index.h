// The index of a model of several files (*.safetensors.index.json): which tensor is in which file.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string_view>

#include "base/bump_allocator.h"
#include "base/cancellation.h"
#include "base/chunked_vector.h"
#include "base/hash.h"
#include "format/name_index.h"

namespace safetensors::format {

// More than ten times the largest index seen (23.5 MB, 2026).
inline constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{256} << 20;

class ShardIndex {
 public:
  static constexpr std::uint32_t kNone = NameIndex::kNone;

  struct Entry {
    std::string_view tensor;
    std::uint32_t shard;
    std::uint32_t at;  // byte of the text where the tensor's name begins
  };

  // text: size bytes and then json::Reader::kPadding zeros; size is at most kMaxIndexBytes. The index points into it.
  // Memory: at most 4 x size + 64 KiB, the text included, on any text. Errors: invalid_index, with the byte; cancelled.
  // cancellation: may be null. Throws std::bad_alloc.
  [[nodiscard]] static Result<std::unique_ptr<const ShardIndex>> parse(std::unique_ptr<char[]> text, std::size_t size,
                                                                       base::Cancellation* cancellation = nullptr);

  // Shards in the order of shard_less, each once. Every name passes check_shard_name.
  [[nodiscard]] std::uint32_t shard_count() const noexcept { return shard_count_; }
  [[nodiscard]] std::string_view shard(std::uint32_t number) const noexcept { return view(shards_[number]); }
  // Entries as the text has them.
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] Entry operator[](std::size_t entry) const noexcept {
    const Stored& stored = entries_[entry];
    return {view(stored.tensor), stored.shard, stored.tensor.begin - 1};
  }
  // The entries of one shard, ascending.
  struct Range {
    const std::uint32_t* first;
    const std::uint32_t* last;
    [[nodiscard]] const std::uint32_t* begin() const noexcept { return first; }
    [[nodiscard]] const std::uint32_t* end() const noexcept { return last; }
    [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(last - first); }
  };
  [[nodiscard]] Range of_shard(std::uint32_t shard) const noexcept {
    return {by_shard_.get() + begin_[shard], by_shard_.get() + begin_[shard + 1]};
  }
  // The entry of that name, or kNone.
  [[nodiscard]] std::uint32_t find(std::string_view tensor) const noexcept;
  // Slots that were read while the names were indexed: see NameIndex::probes().
  [[nodiscard]] std::uint64_t probes() const noexcept { return names_.probes(); }

 private:
  friend class IndexParser;
  explicit ShardIndex(std::unique_ptr<char[]> text) noexcept;

  // Of the text: half the size of a view, which is what bounds the memory.
  struct TextRange {
    std::uint32_t begin;
    std::uint32_t size;
  };
  struct Stored {
    TextRange tensor;  // behind its opening quote
    std::uint32_t shard;
  };
  [[nodiscard]] std::string_view view(TextRange range) const noexcept {
    return {text_.get() + range.begin, range.size};
  }
  [[nodiscard]] TextRange range(std::string_view inside) const noexcept {
    return {static_cast<std::uint32_t>(inside.data() - text_.get()), static_cast<std::uint32_t>(inside.size())};
  }

  std::unique_ptr<char[]> text_;
  base::HashKey hash_key_ = base::HashKey::random();
  base::BumpAllocator arena_;
  base::ChunkedVector<Stored> entries_;
  NameIndex names_;
  std::uint32_t shard_count_ = 0;
  std::unique_ptr<TextRange[]> shards_;
  std::unique_ptr<std::uint32_t[]> by_shard_;  // entries, shard after shard
  std::unique_ptr<std::uint32_t[]> begin_;     // of each shard in by_shard_, and the end
};

// Orders shards by the bytes of their names. Spellings of one path are one shard (`a`, `./a`; `b/a`, `b//a`): otherwise
// a small index could have one file opened under any number of names.
[[nodiscard]] bool shard_less(std::string_view a, std::string_view b) noexcept;

// nullptr when the name may be opened beside the index, else why not. Judged by the rules of POSIX and of Windows,
// wherever this runs: a name that is good here is good everywhere, leads into the index's own folder, and can be shown.
[[nodiscard]] const char* check_shard_name(std::string_view name) noexcept;

}  // namespace safetensors::format
