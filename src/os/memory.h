// Owned memory for large things.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>

namespace safetensors::os {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Pages of the system's, aligned to kHugePage: zero until written, and huge where the system has such pages.
struct Pages {
  std::byte* begin = nullptr;
  std::size_t size = 0;  // whole pages
  bool huge = false;     // whether the system gives huge pages to who wishes for them
};
// Reserved in full (no MAP_NORESERVE), so that a strict system refuses here, not when written to. begin is null when
// it does, or when size is more than the machine has.
[[nodiscard]] Pages map_pages(std::uint64_t size) noexcept;
// Whole ones, also some of what was mapped. false: the system refuses, and they stay.
bool unmap_pages(const Pages& pages) noexcept;

// Uninitialised memory, released with the last copy. From kHugePage bytes up: aligned to kHugePage, in huge pages
// where the system has them, and zero until written. alignment: a power of two up to kHugePage.
// Error: out_of_memory, also for more than the machine has, whatever the system's overcommit setting would promise.
[[nodiscard]] Result<std::shared_ptr<std::byte>> allocate(std::uint64_t size, std::size_t alignment = 64) noexcept;

// Makes the pages under mapped bytes present. Errors: read_failed, also where the file has become shorter, which the
// system does not tell from a device's error; out_of_memory. Systems without a way to do it (before Linux 5.14) are
// asked to read ahead.
[[nodiscard]] Status populate(std::span<const std::byte> mapped) noexcept;
// Gives up the whole pages among mapped bytes. Of a shared map they come back from the file.
void give_up_pages(std::span<const std::byte> mapped) noexcept;

// Whether the machine has that much memory at all, used or not, swap included.
[[nodiscard]] bool fits_in_machine(std::uint64_t size) noexcept;

// The same memory for containers: blocks of kHugePage bytes and more in huge pages, the rest from operator new.
// Throws std::bad_alloc. One for all, from any thread, never destroyed.
[[nodiscard]] std::pmr::memory_resource& large_memory() noexcept;

}  // namespace safetensors::os
