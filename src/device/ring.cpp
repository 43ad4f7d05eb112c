// Copies to a device through a ring of pinned slots.
//
// Pinned memory is needed because only copies from it run while the program goes on. Each copy records an event. A slot
// returns to the ring when a thread needs it and its event has completed, so no thread polls. Slots in flight are in
// the order of their copies, and acquire() waits for the oldest one, which completes first on its stream.
#include "device/ring.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"
#include "device/cuda.h"

namespace safetensors::device {
namespace {

constexpr std::size_t kMinSlots = 2;  // one slot is read while the other is copied
constexpr std::size_t kMinSlotBytes = std::size_t{1} << 20;
constexpr std::size_t kPage = 4096;  // bytes

}  // namespace

RingOptions ring_within(std::size_t budget) noexcept {
  RingOptions options;
  options.slot_bytes = std::min(budget / options.slots / kPage * kPage, options.slot_bytes);
  if (options.slot_bytes >= kMinSlotBytes) return options;
  options.slot_bytes = kMinSlotBytes;
  options.slots = static_cast<unsigned>(std::max(budget / kMinSlotBytes, kMinSlots));
  return options;
}

Result<std::unique_ptr<CopyRing>> CopyRing::create(std::shared_ptr<const Cuda> cuda, int device,
                                                   const RingOptions& options) noexcept {
  return base::guarded([&]() -> Result<std::unique_ptr<CopyRing>> {
    std::unique_ptr<CopyRing> ring(new CopyRing(std::move(cuda)));
    if (Status status = ring->retain(device); !status) return std::move(status).error();
    const Current current(ring->cuda_->calls(), ring->context_);
    if (!current.ok()) {
      return ring->cuda_->error(current.result(), base::concat({"cannot use CUDA device ", device}));
    }
    Status status = ring->make_streams(options.streams, options.after);
    if (status) status = ring->make_slots(options.slots, options.slot_bytes);
    if (!status) return std::move(status).error();
    return ring;
  });
}

Status CopyRing::retain(int device) {
  int count = 0;
  CudaResult result = cuda_->calls().device_get_count(&count);
  if (result != CudaResult::success) return cuda_->error(result, "cannot count the CUDA devices");
  if (count == 0) return base::make_error(Errc::unsupported, "there is no CUDA device");
  if (device < 0 || device >= count) {
    return base::make_error(Errc::invalid_argument,
                            {"there is no CUDA device ", device, ", the number of devices is ", count});
  }
  result = cuda_->calls().device_get(&device_, device);
  if (result == CudaResult::success) result = cuda_->calls().primary_context_retain(&context_, device_);
  if (result == CudaResult::success) return {};
  context_ = nullptr;
  return cuda_->error(result, base::concat({"cannot use CUDA device ", device}));
}

// Makes the streams wait on the device, not on the CPU, for the earlier work of the caller's stream.
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
  (void)calls.event_destroy(earlier);  // The streams keep waiting for it.
  return result == CudaResult::success ? Status() : cuda_->error(result, "cannot wait for the stream of the caller");
}

// Pins memory for the slots. If the system refuses, takes fewer slots of the same size, or halves the size if there are
// not even two slots.
Status CopyRing::make_slots(unsigned count, std::size_t bytes) {
  // Reserve now: the functions that move slots between these lists are noexcept and must not allocate.
  slots_.reserve(count);
  free_.reserve(count);
  in_flight_.reserve(count);
  for (;;) {
    const CudaResult result = pin(count, bytes);
    if (result == CudaResult::success) break;
    if (result == CudaResult::out_of_memory && slots_.size() >= kMinSlots) break;
    unpin();
    if (result != CudaResult::out_of_memory || bytes <= kMinSlotBytes) {
      return cuda_->error(result, base::concat({"cannot lock ", bytes, " bytes of memory for the device"}));
    }
    bytes = std::max(bytes / 2 / kPage * kPage, kMinSlotBytes);
  }
  for (std::size_t i = slots_.size(); i-- > 0;) {
    const CudaResult result = cuda_->calls().event_create(&slots_[i].event, kEventBlockingSync | kEventDisableTiming);
    if (result != CudaResult::success) return cuda_->error(result, "cannot create an event of the device");
    free_.push_back(&slots_[i]);
  }
  stats_.slots = static_cast<unsigned>(slots_.size());
  stats_.slot_bytes = bytes;
  stats_.pinned_bytes = slots_.size() * bytes;
  return {};
}

// Stops at the first slot that the driver refuses.
CudaResult CopyRing::pin(unsigned count, std::size_t bytes) noexcept {
  while (slots_.size() < count) {
    void* memory = nullptr;
    const CudaResult result = cuda_->calls().host_allocate(&memory, bytes, 0);
    if (result != CudaResult::success) return result;
    slots_.push_back({.bytes = {static_cast<std::byte*>(memory), bytes}});  // does not allocate
  }
  return CudaResult::success;
}

void CopyRing::unpin() noexcept {
  for (const Pinned& slot : slots_) {
    if (slot.event) (void)cuda_->calls().event_destroy(slot.event);
    (void)cuda_->calls().host_free(slot.bytes.data());
  }
  slots_.clear();
}

CopyRing::~CopyRing() {
  if (!context_) return;
  const CudaCalls& calls = cuda_->calls();
  {
    // The driver can report an earlier failure here, so try to make the context current twice.
    const Current current(calls, context_);
    std::optional<Current> again;
    if (!current.ok()) again.emplace(calls, context_);
    for (Stream cuda_stream : streams_) {
      // The first result can report an earlier failure. If the second call fails too, nothing runs on the stream any
      // more. Memory must not be unpinned before that.
      if (calls.stream_synchronize(cuda_stream) != CudaResult::success) (void)calls.stream_synchronize(cuda_stream);
    }
    unpin();
    for (Stream cuda_stream : streams_) (void)calls.stream_destroy(cuda_stream);
  }
  (void)calls.primary_context_release(device_);
}

Result<CopyRing::Slot> CopyRing::acquire() noexcept {
  return base::guarded([&]() -> Result<Slot> {
    std::unique_lock lock(mutex_);
    available_.wait(lock, [&] { return !failure_ || !free_.empty() || !in_flight_.empty(); });
    if (!failure_) return failure_.error();
    if (!free_.empty()) {
      Slot slot(free_.back(), {this});
      free_.pop_back();
      return slot;
    }
    Pinned* const oldest = in_flight_.front();
    in_flight_.erase(in_flight_.begin());
    lock.unlock();
    // The slot is in no list now, so no other thread waits for it or reuses its event. Wait without the mutex.
    if (Status status = wait_for(*oldest); !status) return std::move(status).error();
    return Slot(oldest, {this});
  });
}

Status CopyRing::wait_for(const Pinned& slot) noexcept {
  const CudaCalls& calls = cuda_->calls();
  const Current current(calls, context_);
  CudaResult result = current.result();
  if (result == CudaResult::success) result = calls.event_query(slot.event);
  if (result == CudaResult::not_ready) result = calls.event_synchronize(slot.event);
  return result == CudaResult::success ? Status() : fail(result);
}

Status CopyRing::copy_parts(Slot slot, std::span<const Part> parts) noexcept {
  return base::guarded([&]() -> Status {
    std::uint64_t bytes = 0;
    for (const Part& part : parts) bytes += part.size;
    if (bytes == 0) return {};
    std::unique_lock lock(mutex_);
    if (!failure_) return failure_;
    Stream stream = streams_[next_stream_];
    next_stream_ = (next_stream_ + 1) % streams_.size();
    lock.unlock();
    // From here on the slot does not return to the ring on a failure, because a part of it may already be in flight.
    Pinned* const pinned = slot.release();
    const CudaResult result = begin(*pinned, parts, stream);
    if (result != CudaResult::success) return fail(result);
    lock.lock();
    in_flight_.push_back(pinned);  // does not allocate
    stats_.bytes += bytes;
    lock.unlock();
    available_.notify_one();
    return {};
  });
}

CudaResult CopyRing::begin(const Pinned& slot, std::span<const Part> parts, Stream stream) noexcept {
  const CudaCalls& calls = cuda_->calls();
  const Current current(calls, context_);
  if (!current.ok()) return current.result();
  for (const Part& part : parts) {
    if (part.size == 0) continue;
    const CudaResult result =
        calls.copy_to_device_async(part.device_address, slot.bytes.data() + part.from, part.size, stream);
    if (result != CudaResult::success) return result;
  }
  return calls.event_record(slot.event, stream);
}

void CopyRing::GiveBack::operator()(Pinned* slot) const noexcept {
  {
    const std::lock_guard lock(ring->mutex_);
    ring->free_.push_back(slot);  // does not allocate
  }
  ring->available_.notify_one();
}

// The slots stay in flight: acquire() finds that their events have completed.
Status CopyRing::finish() noexcept {
  return base::guarded([&]() -> Status {
    const CudaCalls& calls = cuda_->calls();
    const Current current(calls, context_);
    if (!current.ok()) return fail(current.result());
    // Synchronize every stream even after a failure: no copy may write to the device after finish().
    for (Stream stream : streams_) {
      const CudaResult result = calls.stream_synchronize(stream);
      if (result != CudaResult::success) (void)fail(result);
    }
    const std::lock_guard lock(mutex_);
    return failure_;
  });
}

// Stores the failure if it is the first one, wakes all waiting threads, and returns the first failure.
Status CopyRing::fail(CudaResult result) noexcept {
  Status status = base::guarded([&]() -> Status { return cuda_->error(result, "cannot copy to the device"); });
  {
    const std::lock_guard lock(mutex_);
    if (failure_) failure_ = std::move(status);
  }
  available_.notify_all();
  return base::guarded([&]() -> Status {
    const std::lock_guard lock(mutex_);
    return failure_;
  });
}

RingStats CopyRing::stats() const noexcept {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace safetensors::device
