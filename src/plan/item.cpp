// Checks the caller's request for an item when the item is added. So execution meets no mistakes of the caller.
#include "plan/item.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/printable.h"
#include "format/dtype/cast.h"
#include "format/slice/slice.h"

namespace safetensors::plan {
namespace {

// Returns whether no two elements share a byte. Goes from the smallest stride to the largest: each stride must be at
// least as large as the range that the loops with smaller strides cover. Sets reach to the end of the last element.
bool apart(const Item& item, std::uint64_t& reach) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> loops;  // stride, count
  for (std::size_t i = 0; i < item.strides.size(); ++i)
    if (item.shape[i] > 1) loops.emplace_back(item.strides[i], item.shape[i]);
  std::sort(loops.begin(), loops.end());
  reach = bits(item.dtype) / 8;
  for (const auto& [stride, count] : loops) {
    std::uint64_t step = 0;
    if (stride < reach || !base::multiply(stride, count - 1, step) || !base::add(reach, step, reach)) return false;
  }
  return true;
}

Status check_strides(Item& item, std::span<const std::uint64_t> strides) {
  if (strides.size() != item.shape.size())
    return refuse(item, Errc::invalid_argument,
                  {"the result has ", item.shape.size(), " dimensions, the destination ", strides.size(), " strides"});
  if (bits(item.dtype) % 8 != 0)
    return refuse(item, Errc::invalid_argument,
                  {"elements of ", to_string(item.dtype), " do not fill whole bytes and cannot have strides"});
  item.strides.assign(strides.begin(), strides.end());
  if (item.size == 0) return {};
  std::uint64_t reach = 0;
  if (!apart(item, reach))
    return refuse(item, Errc::invalid_argument, {"the destination's strides let elements of the result overlap"});
  if (reach <= item.destination.size()) return {};
  return refuse(item, Errc::buffer_size,
                {"the result reaches to byte ", reach, " of the destination, which has ", item.destination.size()});
}

Status set_destination(Item& item, const Destination& destination) {
  item.destination = destination.bytes;
  item.device = std::max(destination.device, -1);
  if (!destination.strides.empty()) {
    if (item.on_device()) return refuse(item, Errc::invalid_argument, {"a destination on a device has no strides"});
    if (item.owned() && item.size != 0)
      return refuse(item, Errc::invalid_argument, {"strides were given, but no memory"});
    return check_strides(item, destination.strides);
  }
  if (item.owned() || item.destination.size() == item.size) return {};
  return refuse(item, Errc::buffer_size,
                {"the result has ", item.size, " bytes, the destination ", item.destination.size()});
}

Status set_cast(Item& item, Dtype to) {
  const Dtype from = file::array_dtype(item.info());
  if (from != to && item.tensor.dtype() == Dtype::UNKNOWN)
    return refuse(item, Errc::dtype_mismatch,
                  {"cannot cast a tensor of unknown dtype to ", to_string(to), " (read its bytes)"});
  if (to == Dtype::UNKNOWN) return refuse(item, Errc::dtype_mismatch, {"cannot cast to an unknown dtype"});
  if (!format::castable(from, to))
    return refuse(item, Errc::dtype_mismatch, {"cannot cast ", to_string(from), " to ", to_string(to)});
  const std::uint64_t elements = item.stored / std::max(1U, bits(from) / 8);
  item.dtype = to;
  if (from == to || base::multiply(elements, std::uint64_t{bits(to) / 8}, item.size)) return {};
  return refuse(item, Errc::size_overflow, {"the result would be larger than 2^64-1 bytes"});
}

Status set_slice(Item& item, const Slice& slice) {
  Result<ResolvedSlice> resolved = file::resolve(slice, item.info());
  if (!resolved) return item.file().describe(item.info(), std::move(resolved).error());
  item.shape = resolved->shape();
  item.stored = resolved->nbytes();
  if (!resolved->contiguous()) {
    item.slice = std::make_shared<const ResolvedSlice>(*std::move(resolved));
    return {};
  }
  format::Runs runs(*resolved);
  format::ByteRun run;
  if (runs.next(run)) item.begin = run.offset;
  return {};
}

}  // namespace

Error refuse(const Item& item, Errc code, base::Text message) {
  return item.file().describe(item.info(), base::make_error(code, message));
}

Result<Item> make_item(const Tensor& tensor, const Slice& slice, const Destination& destination,
                       std::optional<Dtype> cast) {
  Item item{.tensor = tensor,
            .stored = tensor.nbytes(),
            .dtype = file::array_dtype(tensor.info()),
            .shape = file::array_shape(tensor.info())};
  if (!file::is_whole(slice)) {
    if (Status status = set_slice(item, slice); !status) return std::move(status).error();
  }
  item.size = item.stored;
  if (cast) {
    if (Status status = set_cast(item, *cast); !status) return std::move(status).error();
  }
  if (Status status = set_destination(item, destination); !status) return std::move(status).error();
  return item;
}

Error out_of_range(const Item& item, std::uint64_t offset, const std::byte* element) {
  std::uint64_t in_tensor = item.begin + offset;
  if (item.slice) {
    const std::uint64_t piece = detail::Access<ResolvedSlice>::piece_size(*item.slice);
    in_tensor = format::piece_offset(*item.slice, offset / piece) + offset % piece;
  }
  const Dtype from = item.tensor.dtype();
  const std::uint64_t index = in_tensor / (bits(from) / 8);
  return item.file().failed(item.info(), item.info().file_offset + in_tensor,
                            format::out_of_range(from, element, item.dtype, index, item.tensor.shape()));
}

void scatter(const Item& item, std::uint64_t offset, std::span<const std::byte> bytes) {
  // The innermost dimensions that are contiguous in the destination are copied at once.
  std::uint64_t piece = bits(item.dtype) / 8;
  std::size_t outer = item.strides.size();
  while (outer > 0 && (item.strides[outer - 1] == piece || item.shape[outer - 1] == 1)) piece *= item.shape[--outer];
  while (!bytes.empty()) {
    std::uint64_t index = offset / piece;
    std::uint64_t to = offset % piece;
    const std::uint64_t size = std::min<std::uint64_t>(piece - to, bytes.size());
    for (std::size_t i = outer; i-- > 0; index /= item.shape[i]) to += index % item.shape[i] * item.strides[i];
    std::memcpy(item.destination.data() + to, bytes.data(), static_cast<std::size_t>(size));
    bytes = bytes.subspan(static_cast<std::size_t>(size));
    offset += size;
  }
}

// The ranges are sorted by where they begin, so an overlap is always one of two neighbours, and n destinations take
// O(n log n). Destinations with strides are left out: two columns of one matrix interleave without a common byte.
Status check_destinations(std::span<const Item> items) {
  std::vector<std::tuple<int, std::uint64_t, const Item*>> ranges;  // device, address
  for (const Item& item : items) {
    if (!item.owned() && item.size != 0 && item.strides.empty())
      ranges.emplace_back(item.device, item.address(), &item);
  }
  std::ranges::sort(ranges);
  const auto overlap = std::ranges::adjacent_find(ranges, [](const auto& a, const auto& b) {
    const auto& [device, begin, item] = a;
    return device == std::get<int>(b) && std::get<std::uint64_t>(b) - begin < item->size;
  });
  if (overlap == ranges.end()) return {};
  const auto [first, second] = std::minmax(std::get<const Item*>(*overlap), std::get<const Item*>(*std::next(overlap)));
  return refuse(*second, Errc::overlapping_destination,
                {"its destination overlaps that of ", base::tensor_named(first->info().name)});
}

}  // namespace safetensors::plan
