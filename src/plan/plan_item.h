// One thing that a plan reads: which bytes, and what becomes of them.
#pragma once

#include <safetensors/read_plan.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "file/file.h"

namespace safetensors::plan {

struct PlanItem {
  Tensor tensor;
  // Either one stretch of the tensor's bytes, from `begin` on, or the pieces of a slice.
  std::uint64_t begin = 0;
  std::optional<ResolvedSlice> slice = std::nullopt;
  std::uint64_t stored = 0;  // bytes in the file

  Dtype dtype = Dtype::U8;  // of the result
  Shape shape;
  std::uint64_t size = 0;  // of the result, in bytes

  std::span<std::byte> destination = {};
  std::vector<std::uint64_t> strides = {};  // empty: C order
  DeviceMemory device = {};

  [[nodiscard]] const detail::FileState& file() const noexcept { return detail::TensorAccess::state(tensor); }
  [[nodiscard]] const TensorInfo& info() const noexcept { return tensor.info(); }
  [[nodiscard]] std::uint64_t file_offset() const noexcept { return tensor.info().file_offset + begin; }
  [[nodiscard]] bool casts() const noexcept { return dtype != tensor.dtype(); }
  // What is in the file goes to the destination as it is.
  [[nodiscard]] bool plain() const noexcept { return !casts() && strides.empty(); }
  [[nodiscard]] bool on_device() const noexcept { return device.device >= 0; }
  [[nodiscard]] bool owned() const noexcept { return destination.data() == nullptr && !on_device(); }
  // What `bytes` of the file come to in the result; whole elements if it casts.
  [[nodiscard]] std::uint64_t result_bytes(std::uint64_t bytes) const noexcept {
    return casts() ? bytes / (bits(tensor.dtype()) / 8) * (bits(dtype) / 8) : bytes;
  }
};

// slice: none for all of the tensor. Errors: as ReadPlan::add. May throw std::bad_alloc.
[[nodiscard]] Result<PlanItem> make_item(const Tensor& tensor, const Slice* slice, const Destination& destination,
                                         const AddOptions& options);

// Copies part of a result in C order, from its byte `at` on, to the destination's strides.
void scatter(const PlanItem& item, std::uint64_t at, std::span<const std::byte> bytes);

}  // namespace safetensors::plan
