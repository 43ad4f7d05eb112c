// Copies to a device through a bounded ring of page-locked memory.
//
// A thread that reads a file takes a slot, reads a chunk into it and hands it on; the copy runs while the next chunk is
// read into the next slot. A slot comes back when the device is done with it.
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

// At most slots * slot_bytes bytes are locked.
struct RingOptions {
  unsigned slots = 8;                              // 0: 8
  std::size_t slot_bytes = std::size_t{16} << 20;  // 0: 16 MiB
  unsigned streams = 2;                            // 0: 2
  // Copies begin after what this stream of the device was given before create(): an allocator may have handed out
  // memory that earlier work still uses.
  Stream after = nullptr;
};

// The ring that locks at most budget bytes: 8 slots of up to 16 MiB, fewer where they would be under 1 MiB; 2 slots of
// 1 MiB are the least, also for a smaller budget.
[[nodiscard]] RingOptions ring_within(std::size_t budget) noexcept;

struct RingStats {
  std::uint64_t bytes = 0;       // handed to the device
  std::uint64_t copies = 0;      // slots handed to the device
  std::uint64_t waits = 0;       // times that acquire() waited for the device
  std::uint64_t slot_waits = 0;  // times that it waited for another thread's slot
  unsigned slots = 0;
  unsigned most_in_use = 0;  // of the slots, at once
  std::size_t slot_bytes = 0;
  std::size_t pinned_bytes = 0;
};

// From any number of threads at once, except the destructor. The first failure of the device is final: every later
// call returns it, and no slot is given out any more.
class CopyRing {
 public:
  // Page-locked memory to read a chunk into. Dropped without copy(), it goes back at once. Must not outlive the ring.
  class Slot {
   public:
    Slot(Slot&& other) noexcept : ring_(std::exchange(other.ring_, nullptr)), index_(other.index_) {}
    Slot& operator=(Slot&& other) noexcept {
      std::swap(ring_, other.ring_);
      std::swap(index_, other.index_);
      return *this;
    }
    ~Slot() {
      if (ring_) ring_->give_back(index_);
    }

    // stats().slot_bytes bytes, aligned to a page.
    [[nodiscard]] std::span<std::byte> bytes() const noexcept {
      return ring_ ? std::span(ring_->slots_[index_].memory, ring_->slot_bytes_) : std::span<std::byte>();
    }

   private:
    friend class CopyRing;
    Slot(CopyRing* ring, std::size_t index) noexcept : ring_(ring), index_(index) {}

    CopyRing* ring_;
    std::size_t index_;
  };

  struct Part {
    std::size_t from = 0;  // in the slot
    std::size_t size = 0;
    Address device_address = 0;
  };

  // device: its ordinal. Retains the device's primary context until the ring dies; no thread keeps it current. Where
  // not all memory can be locked the ring has fewer or smaller slots, down to 2 of 1 MiB.
  // Errors: invalid_argument (no such device), unsupported (no device at all), device_failed, out_of_memory.
  [[nodiscard]] static Result<std::unique_ptr<CopyRing>> create(std::shared_ptr<const Cuda> cuda, int device,
                                                                const RingOptions& options = {}) noexcept;
  // Waits for what the device was given. No slot may be out.
  ~CopyRing();
  CopyRing(const CopyRing&) = delete;
  CopyRing& operator=(const CopyRing&) = delete;

  // Waits for the oldest copy when no slot is free, and for another thread when all slots are out: a thread that holds
  // one while it asks for another may wait for ever. Errors: device_failed, out_of_memory.
  [[nodiscard]] Result<Slot> acquire() noexcept;

  // Begins a copy of the slot's first size bytes; they must not be touched any more. The memory at device_address must
  // live until finish() or the ring's death. Errors: device_failed, out_of_memory; invalid_argument, not final.
  [[nodiscard]] Status copy(Slot slot, std::size_t size, Address device_address) noexcept;
  // The same with parts of the slot, in this order; all are checked before the first is copied.
  [[nodiscard]] Status copy_parts(Slot slot, std::span<const Part> parts) noexcept;

  // Waits for every copy begun before. Errors: the first failure of any copy.
  [[nodiscard]] Status finish() noexcept;

  [[nodiscard]] RingStats stats() const noexcept;

 private:
  // One owner at a time: free_, in_flight_, a Slot, or after a failure nobody.
  struct Pinned {
    std::byte* memory = nullptr;
    Event event = nullptr;     // recorded after the slot's last copy
    std::size_t stream = 0;    // that this copy runs in
    std::uint64_t bytes = 0;   // in flight
    std::uint64_t ticket = 0;  // order of the copies
  };

  explicit CopyRing(std::shared_ptr<const Cuda> cuda) noexcept : cuda_(std::move(cuda)) {}
  Status retain(int device);
  Status make_streams(unsigned count, Stream after);
  Status make_slots(unsigned count, std::size_t bytes);
  CudaResult pin(unsigned count, std::size_t bytes) noexcept;
  void unpin() noexcept;
  void tear_down() noexcept;

  void give_back(std::size_t index) noexcept;
  Status check(const Slot& slot, std::span<const Part> parts) const;
  Status wait_for(std::size_t index) noexcept;
  CudaResult begin(std::size_t index, std::span<const Part> parts) noexcept;
  void put_in_flight(std::size_t index) noexcept;
  void reclaim_until(std::uint64_t ticket) noexcept;
  std::uint64_t bytes_in_flight(std::size_t stream) noexcept;
  Status fail(CudaResult result, std::uint64_t bytes) noexcept;

  const std::shared_ptr<const Cuda> cuda_;
  Device device_ = 0;
  Context context_ = nullptr;
  std::vector<Stream> streams_;
  std::vector<Pinned> slots_;
  std::size_t slot_bytes_ = 0;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable available_;
  std::vector<std::size_t> free_;
  std::vector<std::size_t> in_flight_;  // oldest first
  std::size_t next_stream_ = 0;
  std::uint64_t last_ticket_ = 0;
  RingStats stats_;
  bool failed_ = false;
  Error error_;
};

}  // namespace safetensors::device
