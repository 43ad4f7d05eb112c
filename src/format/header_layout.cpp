#include "format/header_layout.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "format/layout.h"

namespace safetensors::format {
namespace {

using detail::HeaderState;

struct Start {
  std::uint64_t begin;
  std::uint32_t index;
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

// By begin, least significant digit first: comparing 100,000 shuffled tensors would cost more than parsing them.
void radix_sort(std::span<Start> starts, std::span<Start> other, std::uint64_t largest) noexcept {
  constexpr int kBits = 11;
  constexpr std::size_t kBuckets = std::size_t{1} << kBits;
  const std::span<Start> home = starts;
  const int width = static_cast<int>(std::bit_width(largest));
  for (int shift = 0; shift < width; shift += kBits) {
    std::array<std::uint32_t, kBuckets> next{};
    for (const Start& start : starts) ++next[start.begin >> shift & (kBuckets - 1)];
    std::uint32_t total = 0;
    for (std::uint32_t& bucket : next) total += std::exchange(bucket, total);
    for (const Start& start : starts) other[next[start.begin >> shift & (kBuckets - 1)]++] = start;
    std::swap(starts, other);
  }
  if (starts.data() != home.data()) std::copy(starts.begin(), starts.end(), home.begin());
}

// Tensors of one begin: only those of no bytes in a valid file, in any number.
void sort_ties(const HeaderState& state, std::span<Start> starts) {
  for (std::size_t i = 0; i < starts.size();) {
    std::size_t end = i + 1;
    while (end < starts.size() && starts[end].begin == starts[i].begin) ++end;
    if (end - i > 1) {
      std::sort(
          starts.begin() + static_cast<std::ptrdiff_t>(i), starts.begin() + static_cast<std::ptrdiff_t>(end),
          [&](const Start& a, const Start& b) { return in_order(state.tensors[a.index], state.tensors[b.index]); });
    }
    i = end;
  }
}

void sort_by_offset(HeaderState& state) {
  const std::size_t count = state.tensors.size();
  std::pmr::vector<Start> starts(count, state.arena.upstream());
  std::uint64_t largest = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    starts[i] = {state.tensors[i].begin, i};
    largest = std::max(largest, starts[i].begin);
  }
  {
    std::pmr::vector<Start> other(count, state.arena.upstream());
    radix_sort(starts, other, largest);
  }
  sort_ties(state, starts);
  auto* order = state.arena.allocate<std::uint32_t>(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = starts[i].index;
  state.order = order;
}

Status check_tensors(const HeaderState& state) {
  std::uint64_t expected = 0;
  const TensorInfo* previous = nullptr;
  const std::size_t count = state.tensors.size();
  const auto at = [&state](std::size_t i) -> const TensorInfo& {
    return state.tensors[state.order != nullptr ? state.order[i] : i];
  };
  for (std::size_t i = 0; i < count; ++i) {
    constexpr std::size_t kAhead = 16;  // entries in another order are cache misses, dims too
    if (i + kAhead < count) __builtin_prefetch(&at(i + kAhead));
    if (i + kAhead / 2 < count) __builtin_prefetch(at(i + kAhead / 2).shape.data());
    const TensorInfo& tensor = at(i);
    if (tensor.begin == expected && tensor.end >= expected && size_fits(tensor)) {
      expected = tensor.end;
      previous = &tensor;
      continue;
    }
    if (Status status = check_tensor(tensor, expected, previous); !status) {
      Error error = std::move(status).error();
      error.offset = 8 + static_cast<std::uint64_t>(tensor.name.data() - 1 - state.text.data());
      return error;
    }
  }
  return {};
}

Status check_end(const HeaderState& state) {
  const std::size_t count = state.tensors.size();
  const std::uint64_t end =
      count == 0 ? 0 : state.tensors[state.order != nullptr ? state.order[count - 1] : count - 1].end;
  if (end == state.data_bytes) return {};
  const std::uint64_t start = 8 + state.text.size();
  Error error;
  error.code = Errc::incomplete_data;
  error.offset = start + std::min(end, state.data_bytes);
  error.message = "incomplete metadata, file not fully covered: tensors end at byte " + std::to_string(end) +
                  " of the data, the file has " + std::to_string(state.data_bytes) +
                  (end > state.data_bytes ? " (truncated download?)" : " (something was appended?)");
  return error;
}

}  // namespace

Status check_layout(HeaderState& state, bool laid_out) {
  if (!laid_out) {
    if (!is_sorted(state)) sort_by_offset(state);
    if (Status status = check_tensors(state); !status) return status;
  }
  return check_end(state);
}

}  // namespace safetensors::format
