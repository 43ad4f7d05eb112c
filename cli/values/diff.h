// Compares two sets of tensors: their names, dtypes, shapes and values.
#pragma once

#include "console.h"
#include "input.h"
#include "selection.h"

#include <safetensors/error.h>
#include <safetensors/file.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace safetensors::cli {

// By default, elements of one dtype are equal if their bytes are equal.
//
// With a tolerance, or if the dtypes differ, two elements `a` and `b` are equal if one of these is true:
// - they are the same number, such as 0.0 and -0.0, or both are NaN;
// - both and |a - b| as double are finite, and |a - b| <= atol + rtol x |b|.
//
// Integers are compared exactly. An integer and a float are compared as double.
struct DiffOptions {
  double rtol = 0;
  double atol = 0;
  bool values = true;  // false: compare only names, dtypes and shapes
  NameMap names = {};  // names in the second set by those in the first, where they differ
  Selection selection = {};
};

enum class DiffKind : std::uint8_t {
  only_first,
  only_second,
  shape,   // the shapes differ; dtypes may differ, too
  dtype,   // the shapes are equal, the dtypes differ; values are compared, too
  values,  // dtype and shape are equal
};

// A sum of doubles from 0 on: small + 2^64 x large. So neither many large numbers nor a division loses it.
struct Total {
  double small = 0;
  double large = 0;

  void add(double number) noexcept { number < 0x1p900 ? small += number : large += number * 0x1p-64; }
  void add(const Total& other) noexcept {
    small += other.small;
    large += other.large;
  }
  [[nodiscard]] bool empty() const noexcept { return small + large == 0; }
  [[nodiscard]] double over(double count) const noexcept { return small / count + large / count * 0x1p64; }
  [[nodiscard]] double over(const Total& other) const noexcept {
    const double unit = large + other.large > 0 ? 0x1p-64 : 1;
    return (small * unit + large) / (other.small * unit + other.large);
  }
};

// The differences of the values of two tensors of the same shape. An element of C64 is one element. Errors are the
// distances |a - b| as double. An element that is NaN in one of the tensors has no error.
struct Differences {
  std::uint64_t differing = 0;        // number of elements that are not equal
  std::uint64_t first_differing = 0;  // index of the first of them in C order, if there is one
  std::uint64_t nan_differing = 0;    // number of elements that differ and are NaN in exactly one of the tensors
  double max_error = 0;               // largest error of all elements
  Total errors;                       // of all elements
  Total magnitudes;                   // |b| of all elements, without NaN

  // Adds those of later elements.
  void add(const Differences& later) noexcept;
};

// A tensor that differs.
struct TensorDiff {
  DiffKind kind = DiffKind::values;
  std::optional<Tensor> first = std::nullopt;
  std::optional<Tensor> second = std::nullopt;
  std::optional<Differences> values = std::nullopt;  // if they were compared
};

struct DiffResult {
  // The tensors that differ: those of the first set in its order, then those that only the second set has.
  std::vector<TensorDiff> tensors;
  std::uint64_t equal_tensors = 0;  // of the first set
};

// Each tensor is read once, by several threads, whose number changes no result. The equal chunks of a tensor that
// differs are read twice. Errors: invalid_argument (two tensors of the first set get one name), and those of
// for_each_chunk() and of Tensor::read().
[[nodiscard]] Result<DiffResult> diff(Tensors first, Tensors second, const DiffOptions& options, Console& console);

}  // namespace safetensors::cli
