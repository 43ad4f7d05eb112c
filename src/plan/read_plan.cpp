// Collects the items of a ReadPlan, and executes it: places the results, then lets an Execution read them.
//
// read_packed() is a plan whose items have ranges of one buffer as destinations. The buffer is one allocation in huge
// pages, and the threads of the plan provide its pages in parallel, each just before it writes there.
#include <safetensors/read_plan.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "os/huge_page_memory.h"
#include "os/memory.h"
#include "plan/execution_state.h"
#include "plan/item.h"

namespace safetensors {
inline namespace v0 {
namespace detail {

// Each Header finds a name by its keyed hash. The entry that it finds leads to the item. The headers keep the entries
// alive, but no file open.
struct PlanNames {
  std::vector<Header> headers;                                     // of the files of the plan
  std::vector<std::pair<const TensorInfo*, std::uint32_t>> items;  // sorted; the number is the index of the item
};

}  // namespace detail
}  // namespace v0

namespace plan {
namespace {

using os::MemoryRequest;

constexpr std::uint64_t kMaxAlignment = 4096;  // bytes

// Items are usually in the order of the header, so sorting their entries is one pass.
std::shared_ptr<const detail::PlanNames> name_items(std::span<const Item> items) {
  auto names = std::make_shared<detail::PlanNames>();
  std::vector<const detail::FileState*> files;
  names->items.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const detail::FileState* const file = &items[i].file();
    if (files.empty() || files.back() != file) files.push_back(file);
    names->items.emplace_back(&items[i].info(), static_cast<std::uint32_t>(i));
  }
  if (!std::ranges::is_sorted(names->items)) std::ranges::sort(names->items);
  std::ranges::sort(files);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  for (const detail::FileState* const file : files) names->headers.push_back(file->header);
  return names;
}

Result<ReadResult> execute(std::span<const Item> items, const ReadOptions& options) {
  if (Status status = check_destinations(items); !status) return std::move(status).error();
  ExecutionState run(items, options, false);
  if (Status status = run.open_devices(); !status) return std::move(status).error();
  if (Status status = run.place(run.order); !status) return std::move(status).error();
  ReadResult result;
  const auto prepare = [&]() -> Status {
    result.arrays.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) result.arrays.push_back(run.take(i));
    result.names = name_items(items);
    if (!options.on_reserved || options.on_reserved(result.arrays)) return {};
    return base::cancelled(run.completed(), run.total);
  };
  if (Status status = run.execute(run.budget().run_bytes(), prepare); !status) return std::move(status).error();
  result.report = run.report();
  return result;
}

// Returns the offset of each item in the buffer, and the end of the last one.
Result<std::vector<std::uint64_t>> pack(std::span<const Item> items, std::uint64_t alignment) {
  std::vector<std::uint64_t> offsets;
  offsets.reserve(items.size() + 1);
  std::uint64_t end = 0;
  for (const Item& item : items) {
    std::uint64_t offset = 0;
    const bool rounded = base::add(end, alignment - 1, offset);
    offset &= ~(alignment - 1);
    if (!item.owned())
      return refuse(item, Errc::invalid_argument, {"it has a destination, expected none in a buffer of the library"});
    if (!rounded || !base::add(offset, item.size, end))
      return refuse(item, Errc::size_overflow, {"the buffer would be larger than 2^64-1 bytes"});
    offsets.push_back(offset);
  }
  offsets.push_back(end);
  return offsets;
}

// Direct I/O writes to memory whose address and file offset are equal modulo the block. If the alignment allows it, the
// buffer begins where this is true for its first large tensor. In most files, it is then true for all that follow.
std::uint32_t phase_of(std::span<const Item> items, std::span<const std::uint64_t> offsets, std::uint64_t alignment) {
  const auto large = std::ranges::find_if(items, &Item::may_be_direct);
  if (large == items.end() || alignment > MemoryRequest::kAlignment) return 0;
  const std::uint64_t offset = offsets[static_cast<std::size_t>(large - items.begin())];
  const auto phase = static_cast<std::uint32_t>((large->file_offset() - offset) % MemoryRequest::kPhase);
  return phase % MemoryRequest::kAlignment == 0 ? phase : 0;
}

Result<ReadResult> execute_packed(std::vector<Item> items, std::uint64_t alignment, const ReadOptions& options) {
  if (!std::has_single_bit(alignment) || alignment > kMaxAlignment)
    return base::make_error(Errc::invalid_argument,
                            {"invalid alignment ", alignment, ", expected a power of two from 1 to ", kMaxAlignment});
  const Result<std::vector<std::uint64_t>> offsets = pack(items, alignment);
  if (!offsets) return offsets.error();
  MemoryRequest request{.size = offsets->back(), .phase = phase_of(items, *offsets, alignment)};
  if (Status status = os::place({&request, 1}); !status) return std::move(status).error();
  const std::span<std::byte> buffer(request.memory.get(), static_cast<std::size_t>(request.size));
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].size == 0) continue;
    items[i].destination =
        buffer.subspan(static_cast<std::size_t>((*offsets)[i]), static_cast<std::size_t>(items[i].size));
  }
  Result<ReadResult> read = execute(items, options);
  if (!read) return read;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto begin = static_cast<std::size_t>((*offsets)[i]);
    const auto size = static_cast<std::size_t>(items[i].size);
    const auto gap = static_cast<std::size_t>((*offsets)[i + 1]) - begin - size;
    if (gap != 0) std::memset(buffer.data() + begin + size, 0, gap);
    read->arrays[i] = Array(items[i].dtype, std::move(items[i].shape), buffer.subspan(begin, size), request.memory,
                            MemoryKind::owned);
  }
  read->memory = Array(Dtype::U8, Shape{request.size}, buffer, request.memory, MemoryKind::owned);
  return read;
}

}  // namespace
}  // namespace plan

inline namespace v0 {

// Copies the state if a Stream shares it, so that the Stream goes on with the old plan.
Status ReadPlan::add(const Tensor& tensor, const Slice& slice, const Destination& destination,
                     std::optional<Dtype> cast) noexcept {
  return base::guarded([&]() -> Status {
    Result<plan::Item> item = plan::make_item(tensor, slice, destination, cast);
    if (!item) return std::move(item).error();
    std::uint64_t bytes = 0;
    if (!base::add(nbytes(), item->size, bytes))
      return plan::refuse(*item, Errc::size_overflow, {"the results of the plan would be larger than 2^64-1 bytes"});
    if (!state_)
      state_ = std::make_shared<State>();
    else if (state_.use_count() > 1)
      state_ = std::make_shared<State>(*state_);
    state_->items.push_back(*std::move(item));
    state_->bytes = bytes;
    return {};
  });
}

std::size_t ReadPlan::size() const noexcept {
  return state_ ? state_->items.size() : 0;
}

std::uint64_t ReadPlan::nbytes() const noexcept {
  return state_ ? state_->bytes : 0;
}

Result<ReadResult> ReadPlan::execute(const ReadOptions& options) const noexcept {
  return base::guarded([&]() -> Result<ReadResult> {
    return plan::execute(state_ ? std::span<const plan::Item>(state_->items) : std::span<const plan::Item>(), options);
  });
}

Result<ReadResult> read_packed(const ReadPlan& plan, std::uint64_t alignment, const ReadOptions& options) noexcept {
  return base::guarded([&]() -> Result<ReadResult> {
    return plan::execute_packed(plan.state_ ? plan.state_->items : std::vector<plan::Item>(), alignment, options);
  });
}

Status Tensor::read_elements(const detail::ElementType& type, const Slice& slice,
                             Span<std::byte> (*resize)(void* elements, std::size_t count),
                             void* elements) const noexcept {
  return base::guarded([&]() -> Status {
    const Result<ResolvedSlice> part = file::resolve(slice, *info_);
    if (!part) return describe(part.error());
    const std::uint64_t count = part->shape().numel();
    // A sparse file can have more elements than the machine has memory. A vector would touch all of it.
    std::uint64_t size = 0;
    if (!base::multiply(count, type.size, size) || size > PTRDIFF_MAX || !os::fits_in_machine(size))
      return describe(
          base::make_error(Errc::out_of_memory, {"cannot allocate ", count, " elements of ", type.size, " bytes"}));
    if (!type.accepted && !type.dtype)
      return describe(base::make_error(Errc::dtype_mismatch, "no cast gives elements of this C++ type"));
    ReadPlan plan;
    const Destination destination{.bytes = resize(elements, static_cast<std::size_t>(count))};
    Status status = plan.add(*this, slice, destination, type.accepted ? std::nullopt : type.dtype);
    if (!status) return status;
    Result<ReadResult> read = plan.execute();
    return read ? Status() : std::move(read).error();
  });
}

const Array* ReadResult::find(std::string_view name) const& noexcept {
  if (!names) return nullptr;
  std::size_t first = arrays.size();
  for (const Header& header : names->headers) {  // several may have the name
    const TensorInfo* const info = header.find(name);
    if (info == nullptr) continue;
    const auto found = std::ranges::lower_bound(names->items, info, {}, &decltype(names->items)::value_type::first);
    if (found != names->items.end() && found->first == info) first = std::min<std::size_t>(first, found->second);
  }
  return first < arrays.size() ? &arrays[first] : nullptr;
}

}  // namespace v0
}  // namespace safetensors
