// Memory for large results, and operations on mapped memory.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>

namespace safetensors::os {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;  // bytes

// Anonymous memory from the system, aligned to kHugePage. It is zero until written, and uses huge pages if the system
// has them.
struct Pages {
  std::byte* begin = nullptr;
  std::size_t size = 0;  // bytes, a multiple of the system's page size
  bool huge = false;     // false: huge pages are unavailable
};
// Reserves the memory in full (no MAP_NORESERVE). So a system with strict overcommit refuses here and not at a later
// write. begin is null if the system refuses, or if size is larger than the memory of the machine.
[[nodiscard]] Pages map_pages(std::uint64_t size) noexcept;
// Unmaps whole pages; they may be a part of a mapping. Returns false if the system refuses. The pages then stay mapped.
bool unmap_pages(const Pages& pages) noexcept;

// Returns uninitialized memory, which the last copy of the pointer releases. alignment: a power of two up to kHugePage.
// Memory of kHugePage bytes or more is aligned to kHugePage, is zero until written, and uses huge pages if the system
// has them. Error: out_of_memory. It includes sizes larger than the memory of the machine, whatever the overcommit
// setting is.
[[nodiscard]] Result<std::shared_ptr<std::byte>> allocate(std::uint64_t size, std::size_t alignment = 64) noexcept;

// Reads the pages under mapped bytes into memory. Errors: out_of_memory; read_failed, for a failed device and for a
// file that became shorter, because the system does not tell these apart. Linux before 5.14 cannot do it. There the
// function only requests a read-ahead.
[[nodiscard]] Status populate(std::span<const std::byte> mapped) noexcept;
// The order of safetensors::Advice.
enum class PageAdvice : std::uint8_t { normal, sequential, random, will_need };
// Tells the system how mapped bytes will be used. Error: unsupported.
[[nodiscard]] Status advise(std::span<const std::byte> mapped, PageAdvice advice) noexcept;
// Reads the pages under the bytes and keeps them in memory until unlock_pages(), or until they are unmapped. Errors: as
// populate(); out_of_memory, also if the process may not lock as many bytes.
[[nodiscard]] Status lock_pages(std::span<const std::byte> bytes) noexcept;
void unlock_pages(std::span<const std::byte> bytes) noexcept;
// Releases the memory of the whole pages among mapped bytes. In a shared map, the next access reads them from the file.
void give_up_pages(std::span<const std::byte> mapped) noexcept;

// Returns whether the machine has that many bytes of memory and swap in total, free or in use.
[[nodiscard]] bool fits_in_machine(std::uint64_t size) noexcept;

// The same memory as a resource for containers: allocations of kHugePage bytes or more use huge pages, smaller ones use
// operator new. allocate() throws std::bad_alloc. There is one resource per process. It is thread-safe and never
// destroyed.
[[nodiscard]] std::pmr::memory_resource& large_memory() noexcept;

}  // namespace safetensors::os
