// Memory in huge pages for many results at once, that comes back page by page.
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

// Hands out stretches of large mappings and counts, for every page of kHugePage bytes, the stretches that live on it.
// A stretch outlives the arena. Giving one back takes no lock, so a forked child may do it.
// Unused pages are kept for the next requests, and given up only where those fit on none of them, for as many new
// ones: reserved_bytes() is never more than live_bytes() was at its highest.
class HugePageAllocator {
 public:
  // A stretch that is wanted, and what it became.
  struct Request {
    static constexpr std::uint32_t kAnyPhase = ~std::uint32_t{0};

    std::uint64_t size = 0;
    // address % kPhase, a multiple of kAlignment; kAnyPhase: any address that is a multiple of kAlignment.
    std::uint32_t phase = kAnyPhase;
    std::shared_ptr<std::byte> memory = nullptr;  // null for no bytes
  };
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t kPhase = 4096;

  HugePageAllocator() noexcept = default;
  HugePageAllocator(const HugePageAllocator&) = delete;
  HugePageAllocator& operator=(const HugePageAllocator&) = delete;
  // What nothing lives on goes to the system now, the rest when its last stretch does.
  ~HugePageAllocator();

  // One behind the other where there is room. All requests or none. Error: out_of_memory.
  [[nodiscard]] Status place(std::span<Request> requests) noexcept;

  // The same in memory of their own: pages go to the system as soon as nothing lives on them. Less than kHugePage
  // bytes go when all of them may. huge: whether the system gives huge pages, where they were wished for.
  [[nodiscard]] static Status place_once(std::span<Request> requests, bool& huge) noexcept;

  // Gives the pages that nothing lives on to the system; they stay reserved. Returns their bytes.
  std::uint64_t trim() noexcept;

  // In whole pages.
  [[nodiscard]] std::uint64_t reserved_bytes() const noexcept;
  [[nodiscard]] std::uint64_t live_bytes() const noexcept;
  // Whether the system gave huge pages to who wished for them, every time.
  [[nodiscard]] bool huge() const noexcept;

 private:
  class Region;
  struct Stretch;
  // Room in a region: nothing lives in [at, end).
  struct Cursor {
    std::size_t region = 0;
    std::size_t at = 0;
    std::size_t end = 0;
  };

  void place_all(std::span<Request> requests);
  Cursor find_room(std::span<const Request> rest);
  Cursor add_region(std::uint64_t size, bool keep);
  void make_room(std::uint64_t pages) noexcept;
  static Status place_small(std::span<Request> requests, std::uint64_t size);

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Region>> regions_;
  Cursor cursor_;  // behind what was placed last: small requests share pages
};

}  // namespace safetensors::os
