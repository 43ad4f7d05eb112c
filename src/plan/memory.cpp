// Places results one behind the other in huge pages, so that there are few mappings and few page faults. With pages of
// 4 KiB, the faults would cost as much as reading from the page cache.
#include "plan/memory.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "os/huge_page_memory.h"

namespace safetensors::plan {
namespace {

using os::MemoryRequest;

constexpr std::uint64_t kMinAlignedItem = 256 << 10;  // bytes; for a smaller item, alignment may waste a page

}  // namespace

// Direct I/O writes to memory whose address and file offset are equal modulo the block. A large item is placed in this
// way if its address can then still be a multiple of 64.
std::uint32_t Memory::phase(std::size_t index) const noexcept {
  const Item& item = items_[index];
  const std::uint64_t offset = item.file_offset();
  const bool worthwhile = item.size >= kMinAlignedItem && !item.slice && item.plain() &&
                          slots_[index].reader->direct_alignment() > MemoryRequest::kAlignment;
  if (!worthwhile || offset % MemoryRequest::kAlignment != 0) return MemoryRequest::kAnyPhase;
  return static_cast<std::uint32_t>(offset % MemoryRequest::kPhase);
}

Status Memory::place(std::span<const std::size_t> indices) {
  std::vector<MemoryRequest> requests;
  requests.reserve(indices.size());
  std::uint64_t total = 0;
  for (const std::size_t index : indices) {
    if (!items_[index].owned()) continue;
    requests.push_back({.size = items_[index].size, .phase = phase(index)});
    total += items_[index].size;
  }
  bool huge = true;
  Status status = os::place(requests, huge);
  if (!status) {
    // The error names the tensor if there is only one. For several tensors, the sum of their sizes is the cause.
    if (indices.size() != 1) return status;
    const Item& item = items_[indices.front()];
    return item.file().describe(item.info(), std::move(status).error());
  }
  if (!huge) huge_pages_refused_ = true;
  const bool in_huge_pages = huge && total >= os::kHugePage;
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
