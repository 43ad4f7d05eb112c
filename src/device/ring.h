// Copies to a device through a bounded ring of pinned memory.
//
// A thread that reads a file takes a slot, reads a chunk into it and starts the copy. The copy runs while the thread
// reads the next chunk into the next slot. A slot becomes free when its copy has completed.
#pragma once

#include <safetensors/error.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "device/cuda.h"

namespace safetensors::device {

// Options of a ring. It pins at most slots * slot_bytes bytes.
struct RingOptions {
  unsigned slots = 8;
  std::size_t slot_bytes = std::size_t{16} << 20;
  unsigned streams = 2;
  // Copies begin after the work that this CUDA stream received before create(), because a stream-ordered allocator may
  // return memory that earlier work still uses.
  Stream after = nullptr;
};

// Returns options for a ring that pins at most `budget` bytes: 8 slots of 1 to 16 MiB. If the budget is less than 8
// MiB, the ring has fewer slots of 1 MiB, but at least 2, even if 2 MiB are more than the budget.
[[nodiscard]] RingOptions ring_within(std::size_t budget) noexcept;

struct RingStats {
  std::uint64_t bytes = 0;  // bytes of the copies that began
  unsigned slots = 0;
  std::size_t slot_bytes = 0;
  std::size_t pinned_bytes = 0;
};

// Thread-safe, except the destructor. The first failure of the device is final: every later call returns it, and
// acquire() returns no more slots.
class CopyRing {
 public:
  // Pinned memory for one chunk. It has one owner at a time: free_, in_flight_ or a Slot. After a failure it may have
  // none.
  struct Pinned {
    std::span<std::byte> bytes;  // stats().slot_bytes bytes, aligned to a page
    Event event = nullptr;       // recorded after the last copy
  };
  struct GiveBack {
    CopyRing* ring;
    void operator()(Pinned* slot) const noexcept;
  };
  // If it is destroyed without copy_parts(), it returns to the ring at once. It must not outlive the ring.
  using Slot = std::unique_ptr<Pinned, GiveBack>;

  // A range of a slot, and its destination on the device.
  struct Part {
    std::size_t from = 0;  // offset in the slot
    std::size_t size = 0;  // bytes
    Address device_address = 0;
  };

  // device: the ordinal of the device. The ring retains the device's primary context until its destructor. It leaves
  // the context current on no thread. If the system does not pin all of the memory, the ring has fewer or smaller
  // slots, down to 2 slots of 1 MiB. Errors: invalid_argument (no such device), unsupported (no device at all),
  // device_failed, out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<CopyRing>> create(std::shared_ptr<const Cuda> cuda, int device,
                                                                const RingOptions& options = {}) noexcept;
  // Waits for all copies. All slots must be destroyed before.
  ~CopyRing();
  CopyRing(const CopyRing&) = delete;
  CopyRing& operator=(const CopyRing&) = delete;

  // Returns a free slot. If no slot is free, waits for the oldest copy. If threads hold all slots, waits until one of
  // them copies or destroys its slot. So a thread that already holds a slot may wait forever. Errors: device_failed,
  // out_of_memory.
  [[nodiscard]] Result<Slot> acquire() noexcept;

  // Begins a copy of parts of a slot of this ring, in the given order. The caller must not access the memory of the
  // slot any more. The device addresses of the parts must stay valid until finish() or the destructor of the ring.
  // Errors: device_failed, out_of_memory.
  [[nodiscard]] Status copy_parts(Slot slot, std::span<const Part> parts) noexcept;

  // Waits for every copy that began before the call. Error: the first failure of any copy.
  [[nodiscard]] Status finish() noexcept;

  [[nodiscard]] RingStats stats() const noexcept;

 private:
  explicit CopyRing(std::shared_ptr<const Cuda> cuda) noexcept : cuda_(std::move(cuda)) {}
  Status retain(int device);
  Status make_streams(unsigned count, Stream after);
  Status make_slots(unsigned count, std::size_t bytes);
  CudaResult pin(unsigned count, std::size_t bytes) noexcept;
  void unpin() noexcept;

  Status wait_for(const Pinned& slot) noexcept;
  CudaResult begin(const Pinned& slot, std::span<const Part> parts, Stream stream) noexcept;
  Status fail(CudaResult result) noexcept;

  const std::shared_ptr<const Cuda> cuda_;
  Device device_ = 0;
  Context context_ = nullptr;
  std::vector<Stream> streams_;
  std::vector<Pinned> slots_;

  mutable std::mutex mutex_;  // guards all members below
  std::condition_variable available_;
  std::vector<Pinned*> free_;
  std::vector<Pinned*> in_flight_;  // the oldest copy first
  std::size_t next_stream_ = 0;
  RingStats stats_;
  Status failure_;  // the first one
};

}  // namespace safetensors::device
