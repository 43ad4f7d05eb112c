// The memory of a plan's results.
#pragma once

#include <safetensors/array.h>
#include <safetensors/read_plan.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "plan/item.h"

namespace safetensors::plan {

// Checks the options for memory. Error: invalid_argument. May throw std::bad_alloc.
[[nodiscard]] Status check_memory_options(const ReadOptions& options);

// Takes memory from an allocator of the caller, which the memory keeps alive. alignment: in bytes. Errors:
// out_of_memory, invalid_argument (misaligned memory). May throw std::bad_alloc.
[[nodiscard]] Result<std::shared_ptr<std::byte>> allocate(const std::shared_ptr<const Allocator>& allocator,
                                                          std::uint64_t size, std::size_t alignment);

// place() and take() of different items may run at once.
class Memory {
 public:
  // The items, the slots and the arena of the options must outlive this. May throw std::bad_alloc.
  Memory(std::span<const Item> items, std::span<Slot> slots, const ReadOptions& options);

  // Reserves memory for the items with these indices, without touching it. An item with a destination uses the
  // destination instead. Errors: out_of_memory, which names the tensor if there is only one index or an allocator of
  // the caller; invalid_argument (misaligned memory of that allocator). May throw std::bad_alloc.
  [[nodiscard]] Status place(std::span<const std::size_t> indices);
  // Hands out the result of an item. Call it once per item.
  [[nodiscard]] Array take(std::size_t index);
  // Returns whether the system refused huge pages.
  [[nodiscard]] bool huge_pages_refused() const noexcept { return huge_pages_refused_; }

 private:
  [[nodiscard]] std::uint32_t phase(std::size_t index) const noexcept;
  [[nodiscard]] Status place_one(std::size_t index);

  const std::span<const Item> items_;
  const std::span<Slot> slots_;
  Arena* const arena_;                                // null: memory from the system
  const std::shared_ptr<const Allocator> allocator_;  // of the caller, or null; results share it
  std::atomic<bool> huge_pages_refused_{false};
};

}  // namespace safetensors::plan
