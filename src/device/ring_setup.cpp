// How a ring gets its context, streams and memory, and gives them back.
#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"
#include "device/current.h"
#include "device/ring.h"

namespace safetensors::device {
namespace {

constexpr RingOptions kUsual;
constexpr std::size_t kFewestSlots = 2;
constexpr std::size_t kLeastSlotBytes = std::size_t{1} << 20;
constexpr std::size_t kPage = 4096;

}  // namespace

RingOptions ring_within(std::size_t budget) noexcept {
  RingOptions options;
  options.slot_bytes = std::min(budget / kUsual.slots / kPage * kPage, kUsual.slot_bytes);
  if (options.slot_bytes >= kLeastSlotBytes) return options;
  options.slot_bytes = kLeastSlotBytes;
  options.slots = static_cast<unsigned>(std::max(budget / kLeastSlotBytes, kFewestSlots));
  return options;
}

Result<std::unique_ptr<CopyRing>> CopyRing::create(std::shared_ptr<const Cuda> cuda, int device,
                                                   const RingOptions& options) noexcept {
  return base::guarded([&]() -> Result<std::unique_ptr<CopyRing>> {
    std::unique_ptr<CopyRing> ring(new CopyRing(std::move(cuda)));
    if (Status status = ring->retain(device); !status) return std::move(status).error();
    const Current current(ring->cuda_->calls(), ring->context_);
    if (!current.ok()) {
      return ring->cuda_->error(current.result(), "cannot use CUDA device " + std::to_string(device));
    }
    Status status = ring->make_streams(options.streams != 0 ? options.streams : kUsual.streams, options.after);
    if (!status) return std::move(status).error();
    status = ring->make_slots(options.slots != 0 ? options.slots : kUsual.slots,
                              options.slot_bytes != 0 ? options.slot_bytes : kUsual.slot_bytes);
    if (!status) return std::move(status).error();
    return ring;
  });
}

Status CopyRing::retain(int device) {
  const Result<int> count = cuda_->device_count();
  if (!count) return count.error();
  if (*count == 0) return base::make_error(Errc::unsupported, "there is no CUDA device");
  if (device < 0 || device >= *count) {
    return base::make_error(Errc::invalid_argument, "there is no CUDA device " + std::to_string(device) +
                                                        ", the number of devices is " + std::to_string(*count));
  }
  CudaResult result = cuda_->calls().device_get(&device_, device);
  if (result == CudaResult::success) result = cuda_->calls().primary_context_retain(&context_, device_);
  if (result == CudaResult::success) return {};
  context_ = nullptr;
  return cuda_->error(result, "cannot use CUDA device " + std::to_string(device));
}

Status CopyRing::make_streams(unsigned count, Stream after) {
  const CudaCalls& calls = cuda_->calls();
  CudaResult result = CudaResult::success;
  streams_.reserve(count);
  while (streams_.size() < count) {
    Stream stream = nullptr;
    result = calls.stream_create(&stream, kStreamNonBlocking);
    if (result != CudaResult::success) return cuda_->error(result, "cannot create a stream of the device");
    streams_.push_back(stream);
  }
  Event earlier = nullptr;
  result = calls.event_create(&earlier, kEventDisableTiming);
  if (result != CudaResult::success) return cuda_->error(result, "cannot create an event of the device");
  result = calls.event_record(earlier, after);
  for (Stream stream : streams_) {
    if (result == CudaResult::success) result = calls.stream_wait_event(stream, earlier, 0);
  }
  (void)calls.event_destroy(earlier);  // the streams remember it
  return result == CudaResult::success ? Status() : cuda_->error(result, "cannot wait for the stream of the caller");
}

Status CopyRing::make_slots(unsigned count, std::size_t bytes) {
  slots_.reserve(count);
  free_.reserve(count);
  in_flight_.reserve(count);
  for (;;) {
    const CudaResult result = pin(count, bytes);
    if (result == CudaResult::success) break;
    if (result == CudaResult::out_of_memory && slots_.size() >= kFewestSlots) break;
    unpin();
    if (result != CudaResult::out_of_memory || bytes <= kLeastSlotBytes) {
      return cuda_->error(result, "cannot lock " + std::to_string(bytes) + " bytes of memory for the device");
    }
    bytes = std::max(bytes / 2 / kPage * kPage, kLeastSlotBytes);
  }
  slot_bytes_ = bytes;
  for (std::size_t i = slots_.size(); i-- > 0;) {
    const CudaResult result = cuda_->calls().event_create(&slots_[i].event, kEventBlockingSync | kEventDisableTiming);
    if (result != CudaResult::success) return cuda_->error(result, "cannot create an event of the device");
    free_.push_back(i);
  }
  stats_.slots = static_cast<unsigned>(slots_.size());
  stats_.slot_bytes = slot_bytes_;
  stats_.pinned_bytes = slots_.size() * slot_bytes_;
  return {};
}

// Stops at the first slot that is refused.
CudaResult CopyRing::pin(unsigned count, std::size_t bytes) noexcept {
  while (slots_.size() < count) {
    void* memory = nullptr;
    const CudaResult result = cuda_->calls().host_allocate(&memory, bytes, 0);
    if (result != CudaResult::success) return result;
    Pinned slot;
    slot.memory = static_cast<std::byte*>(memory);
    slots_.push_back(slot);  // reserved
  }
  return CudaResult::success;
}

void CopyRing::unpin() noexcept {
  for (const Pinned& slot : slots_) {
    if (slot.event) (void)cuda_->calls().event_destroy(slot.event);
    (void)cuda_->calls().host_free(slot.memory);
  }
  slots_.clear();
}

void CopyRing::tear_down() noexcept {
  if (!context_) return;
  const CudaCalls& calls = cuda_->calls();
  {
    const Current current(calls, context_);
    std::optional<Current> again;
    if (!current.ok()) again.emplace(calls, context_);
    for (Stream stream : streams_) {
      // The first answer may be about a failure before; if the second is none either, nothing runs any more.
      if (calls.stream_synchronize(stream) != CudaResult::success) (void)calls.stream_synchronize(stream);
    }
    unpin();
    for (Stream stream : streams_) (void)calls.stream_destroy(stream);
  }
  (void)calls.primary_context_release(device_);
}

}  // namespace safetensors::device
