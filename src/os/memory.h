// Allocates memory for large results, and controls the pages of mapped memory.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/memory_resource.h"

namespace safetensors::os {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;  // bytes

// Returns the size of a page of the system in bytes. Makes no system call.
[[nodiscard]] std::size_t page_size() noexcept;

// Anonymous memory from the system. It is zero until written, and uses huge pages if the system
// has them.
struct Pages {
  std::byte* begin = nullptr;
  std::size_t size = 0;  // bytes, a multiple of the system's page size
};
// Maps `size` bytes, rounded up to whole pages. Reserves the memory in full (no MAP_NORESERVE), so a system with strict
// overcommit refuses the memory here and not at a later write. In the result, begin is null if the system refuses, or
// if size is larger than the memory of the machine. The memory is aligned to kHugePage. aligned=false: it may begin at
// any page, so that it adjoins the memory of the last such call, and both are one map. A process may have 65,530 maps.
[[nodiscard]] Pages map_pages(std::uint64_t size, bool aligned = true) noexcept;
// The error of an allocation that failed. It names the limit of maps if this is the reason. May throw std::bad_alloc.
[[nodiscard]] Error no_memory(std::uint64_t size);
// Returns whether the system refuses every further map of this process.
[[nodiscard]] bool maps_exhausted() noexcept;
// Unmaps a result of map_pages().
void unmap_pages(const Pages& pages) noexcept;

// Requests huge pages for whole anonymous pages, if the system has them.
void request_huge_pages(std::span<std::byte> pages) noexcept;

// Provides the pages of memory that is about to be written, if the memory seems to be untouched. One call
// costs less than a page fault per page. Does not change bytes. Ignores errors, and does nothing for less than 64 KiB.
void provide_untouched(std::span<std::byte> memory) noexcept;
// Gives the memory of whole anonymous pages back. They stay mapped, and their bytes are unspecified until written: zero
// on Linux, old bytes or zero on Windows. Ignores errors.
void discard_pages(std::span<std::byte> pages) noexcept;

// Returns memory, which the last copy of the pointer releases. alignment: a power of two up to kHugePage. Memory of
// kHugePage bytes or more comes from map_pages(). It is aligned to whole pages. Smaller memory is not initialized.
// Error: out_of_memory. A size larger than the memory of the machine is always an error, even if the system would allow
// it by overcommit.
[[nodiscard]] Result<std::shared_ptr<std::byte>> allocate(std::uint64_t size, std::size_t alignment = 64) noexcept;

enum class MapMode : std::uint8_t {
  shared,         // read-only
  copy_on_write,  // writable, but the file never changes; reserves no memory on Linux, and all of it on Windows
};
// Maps a range of a file. offset: a multiple of page_size(). Returns nullptr and sets errno if the system refuses.
[[nodiscard]] void* map_file(int descriptor, std::uint64_t offset, std::size_t size, MapMode mode) noexcept;
// Returns whether a map keeps other programs from replacing or shortening the file. Then Access::automatic never maps.
[[nodiscard]] bool maps_disturb_writers() noexcept;
// Unmaps the whole range of map_file().
void unmap_file(void* begin, std::size_t size) noexcept;

// Releases the pages that lie entirely in the mapped bytes. In a shared map, the next access reads them from the file
// again. Ignores errors.
void give_up_pages(std::span<const std::byte> mapped) noexcept;

// Returns whether the memory and the swap of the machine, free or in use, have at least `size` bytes together. Also
// returns true if the system does not tell.
[[nodiscard]] bool fits_in_machine(std::uint64_t size) noexcept;

// Returns the memory of the machine in bytes, or less if the control groups (cgroups, version 2) of this process have a
// smaller limit. 0: the system does not tell. Thread-safe. May throw std::bad_alloc.
[[nodiscard]] std::uint64_t memory_size();

// Returns a memory resource for containers. An allocation of kHugePage bytes or more comes from map_pages(), unless its
// alignment is larger than kHugePage. All other allocations come from operator new. allocate() throws std::bad_alloc.
// There is one resource per process. It is thread-safe and never destroyed.
[[nodiscard]] base::MemoryResource& large_memory() noexcept;

}  // namespace safetensors::os
