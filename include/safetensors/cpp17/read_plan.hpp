/// @file
/// A part of the C++17 interface: ReadPlan and ReadResult. Include safetensors.hpp instead of this header, and read
/// there about errors, lifetimes and threads.
#pragma once

#include <safetensors/c.h>
#include <safetensors/cpp17/error.hpp>
#include <safetensors/cpp17/tensor.hpp>
#include <safetensors/cpp17/values.hpp>

#include <cstdint>
#include <memory>
#include <type_traits>

namespace safetensors17 {
inline namespace v0 {

/// The results of a ReadPlan, in the order of adding. All functions are const.
class ReadResult {
 public:
  /// Takes ownership of a handle of the C interface.
  explicit ReadResult(safetensors_read_result* raw) noexcept : handle_(raw) {}
  /// Returns the number of items.
  [[nodiscard]] std::uint64_t size() const noexcept {
    std::uint64_t count = 0;
    (void)safetensors_read_result_count(c(), &count, nullptr);
    return count;
  }
  /// Returns the array of an item. It may outlive the result. The array of an item with a destination is a view of the
  /// memory of the caller. Error: NOT_FOUND when `index` is not below size().
  [[nodiscard]] Result<Array> array(std::uint64_t index) const noexcept {
    Error error;
    safetensors_array* raw = nullptr;
    if (safetensors_read_result_array(c(), index, &raw, &error.c())) return error;
    return Array(raw);
  }
  /// Returns the figures of the read: bytes, times, threads.
  [[nodiscard]] Result<safetensors_read_report_info> report() const noexcept {
    Error error;
    safetensors_read_report_info info = SAFETENSORS_READ_REPORT_INFO_INIT;
    safetensors_read_report* raw = nullptr;
    if (safetensors_read_result_report(c(), &raw, &error.c())) return error;
    const detail::Handle<safetensors_read_report> report(raw);
    if (safetensors_read_report_get_info(raw, &info, &error.c())) return error;
    return info;
  }
  /// Returns the handle of the C interface, which stays owned by this object. NULL if it was moved from.
  [[nodiscard]] const safetensors_read_result* c() const noexcept { return handle_.get(); }

 private:
  detail::Handle<safetensors_read_result> handle_;
};

/// A list of tensors and slices of any files, which are read at once with several threads. execute() is const, so
/// several threads may execute one plan, if it has no destinations.
class ReadPlan {
 public:
  /// Takes ownership of a handle of the C interface.
  explicit ReadPlan(safetensors_read_plan* raw) noexcept : handle_(raw) {}
  /// Makes an empty plan.
  [[nodiscard]] static Result<ReadPlan> create() noexcept {
    Error error;
    safetensors_read_plan* raw = nullptr;
    if (safetensors_read_plan_create(&raw, &error.c())) return error;
    return ReadPlan(raw);
  }
  /// @{
  /// Adds a tensor, or a slice of it, as the next item. The first item has the index 0. You may destroy the tensor and
  /// the slice afterwards. After an error, the plan is unchanged.
  /// Errors: BUFFER_SIZE (the destination has another size), DTYPE_MISMATCH (this cast is not possible), and the errors
  /// of slices as in Tensor::read().
  Status add(const Tensor& tensor, const AddOptions& options = {}) noexcept {
    Error error;
    (void)safetensors_read_plan_add(handle_.get(), tensor.c(), nullptr, &options, &error.c());
    return error;
  }
  Status add(const Tensor& tensor, const Slice& slice, const AddOptions& options = {}) noexcept {
    if (Status status = slice.check(); !status) return status;
    Error error;
    (void)safetensors_read_plan_add(handle_.get(), tensor.c(), slice.c(), &options, &error.c());
    return error;
  }
  /// @}
  /// Returns the number of items.
  [[nodiscard]] std::uint64_t size() const noexcept {
    std::uint64_t count = 0;
    (void)safetensors_read_plan_size(c(), &count, nullptr, nullptr);
    return count;
  }
  /// Returns the size of all results together, in bytes.
  [[nodiscard]] std::uint64_t nbytes() const noexcept {
    std::uint64_t bytes = 0;
    (void)safetensors_read_plan_size(c(), nullptr, &bytes, nullptr);
    return bytes;
  }
  /// Reads all items and waits for them. `threads`, `memory_limit` and other members of the options are described in
  /// safetensors_read_options. After an error, the contents of the destinations are undefined.
  /// Errors: READ_FAILED, FILE_TRUNCATED, FILE_CHANGED, OPEN_FAILED, VALUE_OUT_OF_RANGE, OVERLAPPING_DESTINATION,
  /// CANCELLED, and those of a source.
  [[nodiscard]] Result<ReadResult> execute(const ReadOptions& options = {}) const noexcept {
    Error error;
    safetensors_read_result* raw = nullptr;
    if (safetensors_read_plan_execute(c(), &options, &raw, &error.c())) return error;
    return ReadResult(raw);
  }
  /// Does the same, and calls `progress(completed, total)` from time to time and once at the end, in this thread, with
  /// two `std::uint64_t` in bytes. If it returns false, the read ends with CANCELLED. It may return nothing, and must
  /// not throw. `progress` and `user` of the options are not used.
  template <class Progress>
  [[nodiscard]] Result<ReadResult> execute(ReadOptions options, Progress&& progress) const noexcept {
    using Function = std::remove_reference_t<Progress>;
    options.progress = detail::call_progress<Function>;
    options.user = const_cast<void*>(static_cast<const void*>(std::addressof(progress)));
    return execute(options);
  }
  /// Returns the handle of the C interface, which stays owned by this object. NULL if it was moved from.
  [[nodiscard]] const safetensors_read_plan* c() const noexcept { return handle_.get(); }

 private:
  detail::Handle<safetensors_read_plan> handle_;
};

/// @cond
namespace detail {
// Reads one item with the thread of the caller.
template <class Add>
Result<Array> read_one(const Add& add) noexcept {
  Result<ReadPlan> plan = ReadPlan::create();
  if (!plan) return plan.error();
  if (Status status = add(*plan); !status) return status.error();
  ReadOptions options;
  options.threads = 1;
  const Result<ReadResult> result = plan->execute(options);
  if (!result) return result.error();
  return result->array(0);
}
}  // namespace detail
/// @endcond

inline Result<Array> Tensor::read_as(Dtype dtype) const noexcept {
  return detail::read_one([&](ReadPlan& plan) { return plan.add(*this, AddOptions().cast_to(dtype)); });
}
inline Result<Array> Tensor::read_as(Dtype dtype, const Slice& slice) const noexcept {
  return detail::read_one([&](ReadPlan& plan) { return plan.add(*this, slice, AddOptions().cast_to(dtype)); });
}

}  // namespace v0
}  // namespace safetensors17
