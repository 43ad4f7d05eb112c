// Places results one behind the other in huge pages, so that there are few mappings and few page faults. With pages of
// 4 KiB, the faults would cost as much as reading from the page cache.
#include "plan/memory.h"

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/exceptions.h"
#include "os/huge_page_allocator.h"
#include "plan/arena.h"

namespace safetensors::plan {
namespace {

using Pages = os::HugePageAllocator;

constexpr std::uint64_t kMinAlignedItem = 256 << 10;  // bytes; for a smaller item, alignment may waste a page

}  // namespace

Result<std::shared_ptr<std::byte>> allocate(const std::shared_ptr<const Allocator>& allocator, std::uint64_t size,
                                            std::size_t alignment) {
  const auto bytes = static_cast<std::size_t>(size);
  void* memory = nullptr;
  if (bytes == size)
    memory = base::caught_all([&] { return allocator->allocate(bytes, alignment); }, []() -> void* { return nullptr; });
  if (memory == nullptr)
    return base::make_error(Errc::out_of_memory, "the allocator has no memory of " + std::to_string(size) + " bytes");
  // If the allocation of its counter fails, the shared_ptr calls the deleter itself. So nothing leaks here.
  std::shared_ptr<std::byte> owner(static_cast<std::byte*>(memory), [allocator, bytes](std::byte* begin) noexcept {
    allocator->deallocate(begin, bytes);
  });
  if (reinterpret_cast<std::uintptr_t>(memory) % alignment != 0)
    return base::make_error(
        Errc::invalid_argument,
        "the allocator returned misaligned memory, expected a multiple of " + std::to_string(alignment));
  return owner;
}

Status check_memory_options(const ReadOptions& options) {
  const Allocator& allocator = options.allocator;
  if (static_cast<bool>(allocator.allocate) != static_cast<bool>(allocator.deallocate))
    return base::make_error(Errc::invalid_argument, "the allocator has one function, expected allocate and deallocate");
  if (allocator.allocate && options.arena != nullptr)
    return base::make_error(Errc::invalid_argument, "both an arena and an allocator are set, expected one of them");
  return {};
}

Memory::Memory(std::span<const Item> items, std::span<Slot> slots, const ReadOptions& options)
    : items_(items),
      slots_(slots),
      arena_(options.arena),
      allocator_(options.allocator.allocate ? std::make_shared<const Allocator>(options.allocator) : nullptr) {}

// Direct I/O writes to memory whose address and file offset are equal modulo the block. A large item is placed in this
// way if its address can then still be a multiple of 64.
std::uint32_t Memory::phase(std::size_t index) const noexcept {
  const Item& item = items_[index];
  const std::uint64_t offset = item.file_offset();
  const bool worthwhile = item.size >= kMinAlignedItem && !item.slice && item.plain() &&
                          slots_[index].reader->direct_alignment() > Pages::kAlignment;
  if (!worthwhile || offset % Pages::kAlignment != 0) return Pages::Request::kAnyPhase;
  return static_cast<std::uint32_t>(offset % Pages::kPhase);
}

// Takes memory from the allocator of the caller.
Status Memory::place_one(std::size_t index) {
  const Item& item = items_[index];
  Slot& slot = slots_[index];
  slot.memory = item.destination.data();
  if (!item.owned() || item.size == 0) return {};
  Result<std::shared_ptr<std::byte>> memory = allocate(allocator_, item.size, Pages::kAlignment);
  if (!memory) return item.file().describe(item.info(), std::move(memory).error());
  slot.owner = *std::move(memory);
  slot.memory = slot.owner.get();
  return {};
}

Status Memory::place(std::span<const std::size_t> indices) {
  if (allocator_) {
    for (const std::size_t index : indices) {
      if (Status status = place_one(index); !status) return status;
    }
    return {};
  }
  std::vector<Pages::Request> requests;
  requests.reserve(indices.size());
  std::uint64_t total = 0;
  for (const std::size_t index : indices) {
    if (!items_[index].owned()) continue;
    requests.push_back({.size = items_[index].size, .phase = phase(index)});
    total += items_[index].size;
  }
  bool huge = true;
  Pages* const pages = arena_ == nullptr ? nullptr : detail::Access<Arena>::pages(*arena_);
  Status status = pages != nullptr ? pages->place(requests) : Pages::place_once(requests, huge);
  if (pages != nullptr) huge = pages->huge();
  if (!status) {
    // The error names the tensor if there is only one. For several tensors, the sum of their sizes is the cause.
    if (indices.size() != 1) return status;
    const Item& item = items_[indices.front()];
    return item.file().describe(item.info(), std::move(status).error());
  }
  if (!huge) huge_pages_refused_ = true;
  const bool in_huge_pages = huge && (pages != nullptr || total >= os::kHugePage);
  auto request = requests.begin();
  for (const std::size_t index : indices) {
    Slot& slot = slots_[index];
    slot.memory = items_[index].destination.data();
    slot.in_huge_pages = items_[index].in_huge_pages;
    if (!items_[index].owned()) continue;
    slot.owner = std::move((request++)->memory);
    slot.memory = slot.owner.get();
    slot.in_huge_pages = in_huge_pages;
  }
  return {};
}

Array Memory::take(std::size_t index) {
  const Item& item = items_[index];
  Slot& slot = slots_[index];
  if (item.on_device()) return Array(item.dtype, item.shape, {}, nullptr, MemoryKind::borrowed);
  const std::span<std::byte> bytes(slot.memory, item.strides.empty() ? static_cast<std::size_t>(item.size) : 0);
  if (item.owned()) return Array(item.dtype, item.shape, bytes, std::move(slot.owner), MemoryKind::owned);
  return Array(item.dtype, item.shape, bytes, nullptr, MemoryKind::borrowed);
}

}  // namespace safetensors::plan
