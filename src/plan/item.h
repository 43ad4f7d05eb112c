// One item of a plan: the bytes to read, the form of the result, and its destination.
#pragma once

#include <safetensors/read_plan.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/ring.h"
#include "file/file.h"
#include "io/source_reader.h"

namespace safetensors::plan {

struct Item {
  Tensor tensor;
  // Either one range of the tensor's bytes, which starts at `begin`, or the pieces of a slice.
  std::uint64_t begin = 0;
  // Null for a range. On the heap, because a plan of many whole tensors has many items.
  std::shared_ptr<const ResolvedSlice> slice = nullptr;
  std::uint64_t stored = 0;  // bytes in the file

  // The result; size is in bytes.
  Dtype dtype = Dtype::U8;
  Shape shape;
  std::uint64_t size = 0;

  std::span<std::byte> destination = {};
  std::vector<std::uint64_t> strides = {};  // empty: C order
  int device = -1;                          // the device of the destination; -1: memory of the host

  [[nodiscard]] const detail::FileState& file() const noexcept { return detail::Access<Tensor>::state(tensor); }
  [[nodiscard]] const TensorInfo& info() const noexcept { return tensor.info(); }
  [[nodiscard]] std::uint64_t file_offset() const noexcept { return tensor.info().file_offset + begin; }
  [[nodiscard]] bool casts() const noexcept { return dtype != file::array_dtype(info()); }
  // Returns whether the result has the bytes of the file, in their order.
  [[nodiscard]] bool plain() const noexcept { return !casts() && strides.empty(); }
  // Returns whether direct I/O may write the result in place: the item is one range, and so large that the alignment of
  // its memory is worth a page.
  [[nodiscard]] bool may_be_direct() const noexcept { return plain() && !slice && size >= 256 << 10; }
  [[nodiscard]] bool on_device() const noexcept { return device >= 0; }
  [[nodiscard]] std::uint64_t address() const noexcept { return reinterpret_cast<std::uintptr_t>(destination.data()); }
  [[nodiscard]] bool owned() const noexcept { return destination.data() == nullptr && !on_device(); }
  // Bytes of the result in memory of the host.
  [[nodiscard]] std::uint64_t host_bytes() const noexcept { return on_device() ? 0 : size; }
  // Number of bytes of the result for this number of bytes of the file. If the item casts, only whole elements count.
  [[nodiscard]] std::uint64_t result_bytes(std::uint64_t bytes) const noexcept {
    return casts() ? bytes / (bits(tensor.dtype()) / 8) * (bits(dtype) / 8) : bytes;
  }
};

// The state of an item while its plan is executed.
struct Slot {
  std::size_t file = 0;  // position of the file in the order in which the plan first names them
  const io::SourceReader* reader = nullptr;
  Source::Memory mapped = {};   // the tensor's bytes, if the Source has them in memory
  std::byte* memory = nullptr;  // memory of the result; null on devices
  std::shared_ptr<std::byte> owner = nullptr;
  device::CopyRing* ring = nullptr;         // null for memory of the host
  std::atomic<std::uint64_t> remaining{0};  // bytes of the result that are not complete
};

// Returns an error that names the tensor and the file of an item. May throw std::bad_alloc.
[[nodiscard]] Error refuse(const Item& item, Errc code, base::Text message);

// Errors: as ReadPlan::add. May throw std::bad_alloc.
[[nodiscard]] Result<Item> make_item(const Tensor& tensor, const Slice& slice, const Destination& destination,
                                     std::optional<Dtype> cast);

// Checks that no two destinations overlap. Error: overlapping_destination. Its message names both tensors. May throw
// std::bad_alloc.
[[nodiscard]] Status check_destinations(std::span<const Item> items);

// Returns the error for an element that does not fit into the dtype of the result. offset: offset of the element in all
// bytes that are read for the item. element: its bytes in the file. May throw std::bad_alloc.
[[nodiscard]] Error out_of_range(const Item& item, std::uint64_t offset, const std::byte* element);

// Copies a range of the result, in C order, to the destination's strides. offset: offset of the range in the result.
void scatter(const Item& item, std::uint64_t offset, std::span<const std::byte> bytes);

}  // namespace safetensors::plan

namespace safetensors {
inline namespace v0 {

struct ReadPlan::State {
  std::vector<plan::Item> items;
  std::uint64_t bytes = 0;  // of all results
};

}  // namespace v0
}  // namespace safetensors
