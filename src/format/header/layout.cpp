// Checks rules 6 to 10 of the format for readers and writers: each tensor has the size of its shape and dtype, and the
// tensors cover the data without holes and overlaps.
//
// Most files list their tensors in the order of offsets, and the parser notices that for free. Otherwise the tensors
// are sorted by offset first; then each must begin where the one before it ends. Messages are made in a second pass
// that runs only for files with an error, or with a fault that the caller accepts.
#include "format/header/layout.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <string>

#include "base/error.h"

namespace safetensors::format {
namespace {

std::string quoted(std::string_view name) {
  constexpr std::size_t kShown = 200;
  if (name.size() <= kShown) return base::concat({"`", printable(name), "`"});
  return base::concat({"`", printable(name.substr(0, kShown)), "...` (", name.size(), " bytes)"});
}

std::string offsets_text(const TensorInfo& tensor) {
  return base::concat({"[", tensor.begin, ", ", tensor.end, "]"});
}

Error invalid_offset(const TensorInfo& tensor, std::uint64_t expected, const TensorInfo* previous) {
  Error error;
  error.code = Errc::invalid_offset;
  error.message =
      base::concat({"invalid offset for tensor ", quoted(tensor.name), ": its data_offsets ", offsets_text(tensor)});
  if (tensor.end < tensor.begin) {
    error.message += " end before they begin";
  } else {
    error.message += tensor.begin < expected ? " overlap what comes before, which ends at byte "
                                             : " leave a hole after what comes before, which ends at byte ";
    error.message += std::to_string(expected);
    if (previous != nullptr) error.message += " (tensor " + quoted(previous->name) + ")";
  }
  return error;
}

}  // namespace

Error bytes_error(Errc code, std::string_view name, Dtype dtype, ShapeView shape) {
  Error error;
  error.code = code;
  if (code == Errc::size_overflow) {
    error.message = base::concat({"overflow computing buffer size from shape and/or element type: tensor ",
                                  quoted(name), ", ", to_string(dtype), " ", to_string(shape),
                                  ", has more than 2^64-1 ", (dtype == Dtype::UNKNOWN ? "elements" : "bits")});
  } else {
    error.message = base::concat(
        {"The slice is slicing for subbytes dtypes, and the slice does not end up at a byte boundary, this is invalid.",
         " tensor ", quoted(name), ": ", to_string(shape), " elements of ", bits(dtype),
         " bits do not fill whole bytes"});
  }
  return error;
}

namespace {

// Rule 7 for an unknown dtype. Nobody knows the size of its elements, but their number must fit.
Status check_unknown_size(const TensorInfo& tensor) {
  std::uint64_t elements = 1;
  for (const std::uint64_t dim : tensor.shape) {
    if (!base::multiply(elements, dim, elements))
      return bytes_error(Errc::size_overflow, tensor.name, tensor.dtype, tensor.shape);
  }
  return {};
}

// Checks rules 7 to 9 for one tensor. The error has no offset; the caller adds it.
Status check_size(const TensorInfo& tensor) {
  if (tensor.dtype == Dtype::UNKNOWN) return check_unknown_size(tensor);
  std::uint64_t nbytes = 0;
  if (const Errc code = count_bytes(tensor.dtype, tensor.shape, nbytes); code != Errc::ok) {
    return bytes_error(code, tensor.name, tensor.dtype, tensor.shape);
  }
  if (nbytes == tensor.nbytes()) return {};
  return base::make_error(Errc::size_mismatch,
                          {"invalid shape, data type, or offset for tensor ", quoted(tensor.name), ": ",
                           to_string(tensor.dtype), " ", to_string(tensor.shape), " needs ", nbytes,
                           " bytes, its data_offsets ", offsets_text(tensor), " span ", tensor.nbytes()});
}

using detail::HeaderState;

struct DataRange {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint32_t index;  // of the tensor, in the order of the text
};

bool in_order(const TensorInfo& a, const TensorInfo& b) noexcept {
  if (a.begin != b.begin) return a.begin < b.begin;
  if (a.end != b.end) return a.end < b.end;
  return a.name < b.name;
}

bool is_sorted(const HeaderState& state) noexcept {
  for (std::size_t i = 1; i < state.tensors.size(); ++i) {
    if (!in_order(state.tensors[i - 1], state.tensors[i])) return false;
  }
  return true;
}

// Sorts by begin with a radix sort, least significant digit first. A sort by comparisons would cost more than the parse
// of a header with 100,000 shuffled tensors. max_begin bounds the number of passes; buffer has the size of ranges.
void radix_sort(std::span<DataRange> ranges, std::span<DataRange> buffer, std::uint64_t max_begin,
                base::Cancellation& cancellation) noexcept {
  constexpr int kBits = 11;
  constexpr std::size_t kBuckets = std::size_t{1} << kBits;
  const std::span<DataRange> home = ranges;
  const int width = static_cast<int>(std::bit_width(max_begin));
  for (int shift = 0; shift < width && !cancellation.requested(); shift += kBits) {
    std::array<std::uint32_t, kBuckets> next{};
    for (const DataRange& range : ranges) ++next[range.begin >> shift & (kBuckets - 1)];
    std::uint32_t total = 0;
    for (std::uint32_t& bucket : next) total += std::exchange(bucket, total);
    for (const DataRange& range : ranges) buffer[next[range.begin >> shift & (kBuckets - 1)]++] = range;
    std::swap(ranges, buffer);
  }
  if (ranges.data() != home.data()) std::copy(ranges.begin(), ranges.end(), home.begin());
}

// Sorts the tensors that share a begin by end and name. In a valid file all of them but the last have no bytes, but
// there may be any number of them.
void sort_ties(const HeaderState& state, std::span<DataRange> ranges, base::Cancellation& cancellation) {
  const auto less = [&](const DataRange& a, const DataRange& b) {
    return in_order(state.tensors[a.index], state.tensors[b.index]);
  };
  for (std::size_t i = 0; i < ranges.size();) {
    std::size_t end = i + 1;
    while (end < ranges.size() && ranges[end].begin == ranges[i].begin) ++end;
    const std::span<DataRange> ties = ranges.subspan(i, end - i);
    if (ties.size() > 1 && !base::sort(ties.begin(), ties.end(), less, &cancellation)) return;
    i = end;
  }
}

// Sets state.order. Returns whether each tensor begins where the one before it ends (rule 6). If the call is cancelled,
// returns false and leaves state.order as it is.
bool sort_by_offset(HeaderState& state, base::Cancellation& cancellation) {
  const std::size_t count = state.tensors.size();
  base::BumpAllocator temporary(state.allocator.upstream(), 0);  // unlike a vector, does not clear its memory first
  const std::span<DataRange> ranges(temporary.allocate<DataRange>(count), count);
  std::uint64_t max_begin = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const TensorInfo& tensor = state.tensors[i];
    ranges[i] = {tensor.begin, tensor.end, i};
    max_begin = std::max(max_begin, ranges[i].begin);
  }
  radix_sort(ranges, {temporary.allocate<DataRange>(count), count}, max_begin, cancellation);
  if (!cancellation.stopped()) sort_ties(state, ranges, cancellation);
  if (cancellation.stopped()) return false;
  auto* order = state.allocator.allocate<std::uint32_t>(count);
  std::uint64_t expected = 0;
  bool consecutive = true;
  for (std::size_t i = 0; i < count; ++i) {
    order[i] = ranges[i].index;
    consecutive = consecutive && is_consecutive(ranges[i].begin, ranges[i].end, expected);
    expected = ranges[i].end;
  }
  state.order = order;
  return consecutive;
}

// Checks rules 6 to 9 tensor by tensor, and finds the error to report. Runs only if a tensor is known to break one of
// the rules, or has an unknown dtype.
Status check_each(const HeaderState& state) {
  std::uint64_t expected = 0;
  const TensorInfo* previous = nullptr;
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    const TensorInfo& tensor = state.tensors[state.order != nullptr ? state.order[i] : i];
    Status status = is_consecutive(tensor.begin, tensor.end, expected) ? check_size(tensor)
                                                                       : invalid_offset(tensor, expected, previous);
    if (!status) {
      Error error = std::move(status).error();
      // The opening quote of the tensor's name, in bytes from the start of the file.
      error.offset = 8 + static_cast<std::uint64_t>(tensor.name.data() - 1 - state.text.data());
      return error;
    }
    expected = tensor.end;
    previous = &tensor;
  }
  return {};
}

// Rule 10: the tensors end where the data ends, or before it if `accept` allows that.
Status check_end(HeaderState& state, const Accept& accept) {
  const std::size_t count = state.tensors.size();
  const std::uint64_t end =
      count == 0 ? 0 : state.tensors[state.order != nullptr ? state.order[count - 1] : count - 1].end;
  if (end == state.data_bytes) return {};
  if (end < state.data_bytes && accept.unused_bytes) {
    state.tolerated.unused_bytes = state.data_bytes - end;
    return {};
  }
  const std::uint64_t start = 8 + state.text.size();
  Error error;
  error.code = Errc::incomplete_data;
  error.offset = start + std::min(end, state.data_bytes);
  error.message = base::concat({"incomplete metadata, file not fully covered: tensors end at byte ", end,
                                " of the data, the file has ", state.data_bytes,
                                (end > state.data_bytes ? " (truncated download?)" : " (something was appended?)")});
  return error;
}

}  // namespace

Status check_layout(HeaderState& state, bool in_order, bool sizes_fit, const Accept& accept,
                    base::Cancellation& cancellation) {
  // A list that is sorted and yet not in_order breaks rule 6, so sorting cannot help.
  const bool consecutive = in_order || (!is_sorted(state) && sort_by_offset(state, cancellation));
  if (cancellation.stopped()) return base::opening_cancelled();
  if (!consecutive || !sizes_fit) {
    if (Status status = check_each(state); !status) return status;
  }
  return check_end(state, accept);
}

}  // namespace safetensors::format
