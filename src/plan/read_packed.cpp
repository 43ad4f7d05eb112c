// Reads a PackedLayout: makes one buffer, gives each item its range of the buffer as destination, and executes the
// items as a plan. If the buffer is ours, it is one allocation in huge pages, and the threads of the plan provide its
// pages in parallel, each just before it writes there.
#include <safetensors/read_packed.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "os/huge_page_memory.h"
#include "plan/packed.h"
#include "plan/read_plan.h"

namespace safetensors {
inline namespace v0 {
namespace {

using os::MemoryRequest;

constexpr std::uint64_t kMinDirectItem = 256 << 10;  // bytes

struct Buffer {
  std::span<std::byte> bytes = {};
  std::shared_ptr<std::byte> owner = nullptr;  // null: memory of the caller
  bool fresh = false;                          // in huge pages that nobody has provided yet
  bool huge_refused = false;
};

Result<Buffer> use_memory(std::span<std::byte> destination, const PackedTable& table) {
  const auto address = reinterpret_cast<std::uintptr_t>(destination.data());
  if (destination.size() < table.nbytes())
    return base::make_error(Errc::buffer_size, "the tensors have " + std::to_string(table.nbytes()) +
                                                   " bytes, the destination " + std::to_string(destination.size()));
  if (address == 0 || address % table.alignment() != 0)
    return base::make_error(Errc::invalid_argument,
                            "the destination is " + (address == 0 ? std::string("null") : std::string("misaligned")) +
                                ", expected an address that is a multiple of " + std::to_string(table.alignment()));
  return Buffer{.bytes = destination.first(static_cast<std::size_t>(table.nbytes()))};
}

// Direct I/O writes to memory whose address and file offset are equal modulo the block. If the alignment allows it, the
// buffer begins where this is true for its first large tensor. In most files, it is then true for all that follow.
std::uint32_t phase_of(const detail::PackedLayoutState& layout) {
  if (layout.table.alignment() > MemoryRequest::kAlignment) return 0;
  const auto large = std::ranges::find_if(
      layout.items, [](const plan::Item& item) { return item.plain() && item.size >= kMinDirectItem; });
  if (large == layout.items.end()) return 0;
  const auto row = static_cast<std::size_t>(large - layout.items.begin());
  const auto phase =
      static_cast<std::uint32_t>((large->file_offset() - layout.table.tensors()[row].offset) % MemoryRequest::kPhase);
  return phase % MemoryRequest::kAlignment == 0 ? phase : 0;
}

Result<Buffer> make_memory(const detail::PackedLayoutState& layout) {
  MemoryRequest request{.size = layout.table.nbytes(), .phase = phase_of(layout)};
  bool huge = true;
  if (Status status = os::place({&request, 1}, huge); !status) return std::move(status).error();
  return Buffer{.bytes = {request.memory.get(), static_cast<std::size_t>(request.size)},
                .owner = request.memory,
                .fresh = huge && request.size >= os::kHugePage,
                .huge_refused = !huge};
}

std::vector<plan::Item> items_in(const detail::PackedLayoutState& layout, const Buffer& buffer) {
  std::vector<plan::Item> items = layout.items;
  const std::span<const PackedTensor> rows = layout.table.tensors();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].size == 0) continue;
    items[i].destination =
        buffer.bytes.subspan(static_cast<std::size_t>(rows[i].offset), static_cast<std::size_t>(rows[i].nbytes));
    items[i].in_huge_pages = buffer.fresh;
  }
  return items;
}

void clear_gaps(const PackedTable& table, std::span<std::byte> bytes) noexcept {
  std::uint64_t end = 0;
  for (const PackedTensor& row : table.tensors()) {
    if (row.offset != end) std::memset(bytes.data() + end, 0, static_cast<std::size_t>(row.offset - end));
    end = row.offset + row.nbytes;
  }
}

}  // namespace

Result<Packed> read_packed(const PackedLayout& layout, Span<std::byte> destination,
                           const ReadOptions& options) noexcept {
  return base::guarded([&]() -> Result<Packed> {
    const detail::PackedLayoutState& state = *layout.state_;
    const bool ours = destination.empty();
    Result<Buffer> buffer = ours ? make_memory(state) : use_memory(destination, state.table);
    if (!buffer) return std::move(buffer).error();
    Result<ReadResult> read = plan::execute(items_in(state, *buffer), options);
    if (!read) return std::move(read).error();
    clear_gaps(state.table, buffer->bytes);
    if (buffer->huge_refused)
      read->report.fallbacks.emplace_back("memory is in small pages: the system refuses huge ones");
    return Packed{.memory = Array(Dtype::U8, Shape{state.table.nbytes()}, buffer->bytes, std::move(buffer->owner),
                                  ours ? MemoryKind::owned : MemoryKind::borrowed),
                  .table = state.table,
                  .report = std::move(read->report)};
  });
}

Result<Array> Packed::array(std::string_view name) const noexcept {
  return base::guarded([&]() -> Result<Array> {
    const PackedTensor* const row = table.find(name);
    if (row == nullptr) return base::make_error(Errc::not_found, "the buffer has no " + base::tensor_named(name));
    Result<Array> part = memory.slice({DimSlice::range(static_cast<std::int64_t>(row->offset),
                                                       static_cast<std::int64_t>(row->offset + row->nbytes))});
    if (!part) return part;
    const std::span<const std::byte> bytes = part->bytes();
    return Array(row->dtype, row->shape, {const_cast<std::byte*>(bytes.data()), bytes.size()}, part->owner(),
                 memory.memory());
  });
}

}  // namespace v0
}  // namespace safetensors
