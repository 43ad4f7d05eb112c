// Memory in huge pages for many results at once. It returns to the system page by page.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "os/memory.h"

namespace safetensors::os {

// Hands out memory from large mappings and counts, per page of kHugePage bytes, the allocations that live on it.
// Thread-safe. An allocation may outlive the allocator. Its release takes no lock, so the child of a fork may release
// it.
//
// Unused pages are kept for the next requests. If no unused space fits a request, the allocator unmaps as many unused
// pages as it adds new ones. So reserved_bytes() never exceeds the highest value of live_bytes().
class HugePageAllocator {
 public:
  // A request for memory, and its result.
  struct Request {
    static constexpr std::uint32_t kAnyPhase = ~std::uint32_t{0};

    std::uint64_t size = 0;  // bytes
    // The required value of address % kPhase. It must be a multiple of kAlignment. kAnyPhase: the address may be any
    // multiple of kAlignment.
    std::uint32_t phase = kAnyPhase;
    std::shared_ptr<std::byte> memory = nullptr;  // the result; null if size is 0
  };
  // Both are in bytes.
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t kPhase = 4096;

  HugePageAllocator() noexcept = default;
  HugePageAllocator(const HugePageAllocator&) = delete;
  HugePageAllocator& operator=(const HugePageAllocator&) = delete;
  // Returns unused pages to the system. Every other page returns with the last allocation on it.
  ~HugePageAllocator();

  // Places the requests one behind the other if they fit. Places all requests or none. Error: out_of_memory.
  [[nodiscard]] Status place(std::span<Request> requests) noexcept;

  // Like place(), but in new memory, which no other request will share. A page returns to the system as soon as no
  // request lives on it. If the requests have less than kHugePage bytes in all, their memory returns when all of them
  // are released. huge: becomes false if huge pages were requested but are unavailable, else true.
  [[nodiscard]] static Status place_once(std::span<Request> requests, bool& huge) noexcept;

  // Returns the memory of unused pages to the system. Their addresses stay reserved. Returns the number of bytes.
  std::uint64_t trim() noexcept;

  // reserved_bytes() counts the bytes of all pages, live_bytes() those of the pages with at least one allocation.
  [[nodiscard]] std::uint64_t reserved_bytes() const noexcept;
  [[nodiscard]] std::uint64_t live_bytes() const noexcept;
  // Returns false if huge pages were unavailable for any of the current regions.
  [[nodiscard]] bool huge() const noexcept;

 private:
  class Region;
  struct Release;
  // Unused space in a region: the bytes [begin, end).
  struct Cursor {
    std::size_t region = 0;  // index in regions_
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  void place_all(std::span<Request> requests);
  Cursor find_space(std::span<const Request> requests);
  Cursor add_region(std::uint64_t size, bool keep);
  void release_unused(std::uint64_t pages) noexcept;
  static Status place_small(std::span<Request> requests, std::uint64_t size);

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Region>> regions_;
  Cursor cursor_;  // the space after the last request, so that small requests share pages
};

}  // namespace safetensors::os
