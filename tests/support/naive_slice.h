// The meaning of a slice, in the simplest code: it visits every element. For small shapes only.
#pragma once

#include <safetensors/slice.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "format/slice/slice.h"

namespace safetensors::test {

struct NaiveSlice {
  Errc error = Errc::ok;
  std::vector<std::uint64_t> shape = {};
  std::vector<std::uint64_t> elements = {};  // their numbers in the tensor, in the order of the result
  std::vector<format::ByteRun> runs = {};
};

// The indices taken of a dimension, or the error. Dimensions and bounds must be far from overflowing.
inline Errc naive_pick(const DimSlice& want, std::int64_t size, std::vector<std::int64_t>& taken) {
  if (want.kind == DimSlice::Kind::index) {
    const std::int64_t index = want.index < 0 ? want.index + size : want.index;
    if (index < 0 || index >= size) return Errc::slice_index;
    taken.push_back(index);
    return Errc::ok;
  }
  if (want.kind == DimSlice::Kind::shard) {
    if (want.rank >= want.world) return Errc::slice_index;
    // Dealt out one at a time to parts of their own, then laid side by side.
    std::vector<std::int64_t> parts(want.world, 0);
    for (std::int64_t i = 0; i < size; ++i) ++parts[static_cast<std::size_t>(i) % want.world];
    std::int64_t start = 0;
    for (std::uint64_t part = 0; part < want.rank; ++part) start += parts[part];
    for (std::int64_t i = 0; i < parts[want.rank]; ++i) taken.push_back(start + i);
    return Errc::ok;
  }
  if (want.kind != DimSlice::Kind::range) {
    for (std::int64_t i = 0; i < size; ++i) taken.push_back(i);
    return Errc::ok;
  }
  if (want.step == 0) return Errc::slice_step;
  const auto from_end = [&](std::int64_t bound) { return bound < 0 ? bound + size : bound; };
  if (want.step > 0) {
    std::int64_t i = want.begin ? from_end(*want.begin) : 0;
    const std::int64_t end = want.end ? from_end(*want.end) : size;
    for (i = i < 0 ? 0 : i; i < end && i < size; i += want.step) taken.push_back(i);
  } else {
    std::int64_t i = want.begin ? from_end(*want.begin) : size - 1;
    const std::int64_t end = want.end ? from_end(*want.end) : -1;
    for (i = i >= size ? size - 1 : i; i > end && i >= 0; i += want.step) taken.push_back(i);
  }
  return Errc::ok;
}

// Joins what lies side by side, and asks for whole bytes.
inline void naive_runs(unsigned element_bits, NaiveSlice& result) {
  struct Bits {
    std::uint64_t begin, end;
  };
  std::vector<Bits> joined;
  for (const std::uint64_t element : result.elements) {
    const std::uint64_t begin = element * element_bits;
    if (!joined.empty() && joined.back().end == begin)
      joined.back().end += element_bits;
    else
      joined.push_back({begin, begin + element_bits});
  }
  for (const Bits& bits : joined) {
    if (bits.begin % 8 != 0 || bits.end % 8 != 0) {
      result.error = Errc::slice_bits;
      result.runs.clear();
      return;
    }
    result.runs.push_back({bits.begin / 8, (bits.end - bits.begin) / 8});
  }
}

inline NaiveSlice naive_slice(const std::vector<DimSlice>& wants, Dtype dtype,
                              const std::vector<std::uint64_t>& shape) {
  std::size_t ellipses = 0;
  for (const DimSlice& want : wants) ellipses += want.kind == DimSlice::Kind::ellipsis ? 1 : 0;
  if (ellipses > 1 || wants.size() - ellipses > shape.size()) return {.error = Errc::slice_rank};
  std::vector<DimSlice> dims;
  for (const DimSlice& want : wants) {
    if (want.kind != DimSlice::Kind::ellipsis)
      dims.push_back(want);
    else
      dims.resize(dims.size() + shape.size() - (wants.size() - 1));
  }
  dims.resize(shape.size());

  NaiveSlice result;
  result.elements = {0};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::vector<std::int64_t> taken;
    if (const Errc error = naive_pick(dims[i], static_cast<std::int64_t>(shape[i]), taken); error != Errc::ok)
      return {.error = error};
    if (dims[i].kind != DimSlice::Kind::index) result.shape.push_back(taken.size());
    std::vector<std::uint64_t> next;
    for (const std::uint64_t element : result.elements)
      for (const std::int64_t index : taken) next.push_back(element * shape[i] + static_cast<std::uint64_t>(index));
    result.elements = std::move(next);
  }
  naive_runs(bits(dtype), result);
  return result;
}

}  // namespace safetensors::test
