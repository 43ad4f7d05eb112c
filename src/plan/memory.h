// The memory of a plan's results.
#pragma once

#include <safetensors/array.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "plan/item.h"

namespace safetensors::plan {

// place() and take() of different items may run at once.
class Memory {
 public:
  // The items and the slots must outlive this.
  Memory(std::span<const Item> items, std::span<Slot> slots) noexcept : items_(items), slots_(slots) {}

  // Reserves memory for the items with these indices, without touching it. An item with a destination uses the
  // destination instead. Error: out_of_memory, which names the tensor if there is only one index. May throw
  // std::bad_alloc.
  [[nodiscard]] Status place(std::span<const std::size_t> indices);
  // Hands out the result of an item. Call it once per item.
  [[nodiscard]] Array take(std::size_t index);
  // Returns whether the system refused huge pages.
  [[nodiscard]] bool huge_pages_refused() const noexcept { return huge_pages_refused_; }

 private:
  [[nodiscard]] std::uint32_t phase(std::size_t index) const noexcept;

  const std::span<const Item> items_;
  const std::span<Slot> slots_;
  std::atomic<bool> huge_pages_refused_{false};
};

}  // namespace safetensors::plan
