/// @file
/// Compares two sets of tensors: their names, dtypes, shapes and values.
#pragma once

#include <safetensors/callback.h>
#include <safetensors/error.h>
#include <safetensors/file.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors {
inline namespace v0 {

/// Options of diff(). By default, elements of one dtype are equal if their bytes are equal.
///
/// With a tolerance, or if the dtypes differ, two elements `a` and `b` are equal if one of these is true:
/// - they are the same number, such as 0.0 and -0.0, or both are NaN;
/// - both are finite, and |a - b| <= atol + rtol x |b|;
/// - they have the same float dtype, and the number of steps from `a` to `b` through neighbouring floats is at most
///   `ulps`, for C64 in each component. So 1 allows neighbours.
///
/// Integers are compared exactly. An integer and a float are compared as double.
struct DiffOptions {
  double rtol = 0;         ///< relative tolerance, at least 0
  double atol = 0;         ///< absolute tolerance, at least 0
  std::uint64_t ulps = 0;  ///< tolerance in units in the last place
  /// Compare values. false: compare only names, dtypes and shapes, and read no tensor.
  bool values = true;
  /// Returns the name that a tensor of the first set has in the second set. Null: the same name. Must not throw.
  Callback<std::string(std::string_view name)> rename = nullptr;
  /// Number of threads that read and compare, including the calling thread. 0: one per usable processor, at most 16.
  unsigned threads = 0;
  /// Called with the number of bytes compared and the total, of the first set. Runs in the calling thread. Return false
  /// to cancel (Errc::cancelled). Must not throw.
  Callback<bool(std::uint64_t completed, std::uint64_t total)> progress = nullptr;
  /// Returns true for the tensors to compare. It gets the tensors of the first set, and those of the second set without
  /// a counterpart in the first. Null: all tensors. Must not throw.
  Callback<bool(const Tensor& tensor)> select = nullptr;
};

/// The kinds of differences.
enum class DiffKind : std::uint8_t {
  only_first,   ///< the second set has no such tensor
  only_second,  ///< the first set has no such tensor
  shape,        ///< the shapes differ; dtypes may differ, too
  dtype,        ///< the shapes are equal, the dtypes differ; values are compared, too
  values,       ///< dtype and shape are equal
};

/// A tensor that differs.
struct TensorDiff {
  DiffKind kind = DiffKind::values;             ///< the kind of the difference
  std::optional<Tensor> first = std::nullopt;   ///< the tensor of the first set
  std::optional<Tensor> second = std::nullopt;  ///< the tensor of the second set

  /// @{
  /// For DiffKind::values and DiffKind::dtype, if DiffOptions::values is set. An element of C64 is one element. Errors
  /// are the distances |a - b| as double. An element that is NaN in one of the tensors has no error.
  std::uint64_t differing = 0;        ///< number of elements that are not equal
  std::uint64_t first_differing = 0;  ///< index of the first of them in C order, if there is one
  std::uint64_t nan_differing = 0;    ///< number of elements that differ and are NaN in exactly one of the tensors
  double max_error = 0;               ///< largest error of all elements
  double mean_error = 0;              ///< sum of the errors divided by the number of all elements
  double mean_magnitude = 0;          ///< sum of |b|, without NaN, divided by the number of all elements
  /// @}
};

/// The result of diff().
struct DiffResult {
  /// The tensors that differ: those of the first set in its order, then those that only the second set has.
  std::vector<TensorDiff> tensors;
  /// Number of tensors of the first set that are equal to that of the second set.
  std::uint64_t equal_tensors = 0;

  /// Returns whether no tensor differs. Two empty sets are equal.
  [[nodiscard]] bool equal() const noexcept { return tensors.empty(); }
};

/// Compares two sets of tensors:
/// @code
/// const Checkpoint a = Checkpoint::open("before").value(), b = Checkpoint::open("after").value();
/// const DiffResult result = diff(a.tensors(), b.tensors()).value();
/// if (!result.equal()) std::cout << result.tensors.size() << " tensors differ\n";
/// @endcode
///
/// Each tensor is read once, in chunks of up to 1 MiB. The equal chunks of a tensor that differs are read twice. The
/// memory is about 3 MiB per thread, and up to 100 bytes for each chunk. The result does not depend on the number of
/// threads. Errors: invalid_argument (a tolerance is negative or NaN; two tensors of the first set get one name),
/// cancelled, out_of_memory, dtype_mismatch (the values of Dtype::UNKNOWN), and those of Tensor::read().
[[nodiscard]] SAFETENSORS_API Result<DiffResult> diff(Tensors first, Tensors second,
                                                      const DiffOptions& options = {}) noexcept;

}  // namespace v0
}  // namespace safetensors
