// How an engine uses this library: one buffer with a table of offsets, in memory of the library or of the engine; and
// views that the engine copies.
#include <safetensors/safetensors.h>
#include <sys/mman.h>

#include <cstring>

#include "../bench.h"
#include "loops.h"

namespace engines {
namespace {

namespace st = safetensors;
using bench::must;

Loaded loaded_from(const st::Packed& packed) {
  Loaded loaded;
  const std::span<const std::byte> bytes = packed.memory.bytes();
  for (const st::PackedTensor& row : packed.table.tensors())
    loaded.tensors.emplace_back(row.name, bytes.subspan(row.offset, row.nbytes));
  loaded.owners.push_back(std::make_shared<st::Array>(packed.memory));
  return loaded;
}

Loaded packed(const std::string& path) {
  const st::Checkpoint model = must(st::Checkpoint::open(path));
  return loaded_from(must(st::read_packed(model.tensors())));
}

// Reads into `memory`, which `release` frees.
template <class Allocate>
Loaded packed_into(const std::string& path, const Allocate& allocate) {
  const st::Checkpoint model = must(st::Checkpoint::open(path));
  const st::PackedLayout layout = must(st::PackedLayout::make(model.tensors()));
  std::shared_ptr<void> owner = allocate(layout.nbytes());
  Loaded loaded = loaded_from(must(st::read_packed(layout, {static_cast<std::byte*>(owner.get()), layout.nbytes()})));
  loaded.owners.push_back(std::move(owner));
  return loaded;
}

Loaded packed_malloc(const std::string& path) {
  return packed_into(path, [](std::size_t size) {
    return std::shared_ptr<void>(std::aligned_alloc(64, (size + 63) / 64 * 64), std::free);
  });
}

// What an engine that allocates by itself can do: ask for huge pages before the read.
Loaded packed_advised(const std::string& path) {
  return packed_into(path, [](std::size_t size) {
    constexpr std::size_t kHuge = std::size_t{2} << 20;
    size = (size + kHuge - 1) / kHuge * kHuge;
    void* const memory = std::aligned_alloc(kHuge, size);
    (void)madvise(memory, size, MADV_HUGEPAGE);
    return std::shared_ptr<void>(memory, std::free);
  });
}

Loaded view_and_copy(const std::string& path) {
  const st::File file = must(st::File::open(path));
  Loaded loaded;
  for (const st::Tensor& tensor : file.tensors()) {
    const st::Array view = must(tensor.view());
    std::byte* const memory = loaded.allocate(view.nbytes());
    std::memcpy(memory, view.bytes().data(), view.nbytes());
    loaded.tensors.emplace_back(tensor.name(), std::span(memory, view.nbytes()));
  }
  return loaded;
}

}  // namespace

std::vector<Loop> our_loops() {
  return {{"packed", "read_packed, memory of the library", true, packed},
          {"packed_advised", "read_packed into memory of the engine with MADV_HUGEPAGE", true, packed_advised},
          {"packed_malloc", "read_packed into memory of the engine from malloc", true, packed_malloc},
          {"view", "view of each tensor, malloc, memcpy", true, view_and_copy}};
}

}  // namespace engines
