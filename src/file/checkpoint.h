// The state of a Checkpoint, which its lists of tensors share, and the function that opens a Checkpoint.
#pragma once

#include <safetensors/checkpoint.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bump_allocator.h"
#include "base/cancellation.h"
#include "base/hash.h"
#include "format/header/name_index.h"
#include "os/memory.h"

namespace safetensors {
inline namespace v0 {
namespace detail {

struct CheckpointState {
  struct Entry {
    const TensorInfo* info;  // of the file's header
    std::uint32_t file;
  };

  // Index of the tensor in entries, or NameIndex::kNone.
  [[nodiscard]] std::uint32_t find(std::string_view name) const noexcept {
    return names.find(name, base::hash(name, hash_key), [this](std::size_t i) { return entries[i].info->name; });
  }

  // The parts of the first index that are kept.
  struct Index {
    std::string name;  // in its folder
    std::string metadata;
  };

  std::string path;  // the caller's path; empty if the caller gave several
  std::optional<Index> index;
  std::vector<File> files;
  std::vector<Entry> entries;
  base::HashKey hash_key = base::HashKey::random();
  base::BumpAllocator allocator{&os::large_memory(), std::size_t{4} << 10};
  format::NameIndex names;
};

}  // namespace detail
}  // namespace v0
}  // namespace safetensors

namespace safetensors::file {

// descriptors: maximum number of descriptors that the files keep open. Errors: as Checkpoint::open.
[[nodiscard]] Result<std::shared_ptr<const detail::CheckpointState>> open_checkpoint(std::span<const std::string> paths,
                                                                                     const OpenOptions& options,
                                                                                     std::size_t descriptors) noexcept;

}  // namespace safetensors::file
