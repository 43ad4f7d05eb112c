// One thread of a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "device/ring.h"
#include "file/slice_reader.h"
#include "io/source_reader.h"
#include "plan/execution_state.h"
#include "plan/jobs.h"

namespace safetensors::plan {

// Executes jobs with its own buffers. One thread makes, uses and destroys it.
class Worker {
 public:
  explicit Worker(ExecutionState& run) noexcept : run_(run) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Executes a job, and reports the bytes completed and the cost to the run. Errors name tensor, path and offset.
  [[nodiscard]] Status work(const Job& job) noexcept;

 private:
  Status work_on_host(const Job& job);
  Status work_on_device(const Job& job, device::CopyRing& ring);
  bool in_place(const Job& job) const;
  std::span<std::byte> part_of(const Job& job, std::size_t index, std::span<std::byte> bytes) const;
  Status fetch(const Job& job, std::span<std::byte> to);
  Status gather(const Item& item, const Slot& slot, file::PieceRange pieces, std::span<std::byte> to);
  Status compare(const Item& item, const Slot& slot, file::PieceRange pieces, std::span<std::byte> to);
  static bool may_map(const Item& item, const Slot& slot);
  bool gather_mapped(const Item& item, file::PieceRange pieces, std::span<std::byte> to);
  Status read_pieces(const Item& item, const Slot& slot, file::PieceRange pieces, std::span<std::byte> to);
  Status read(const Slot& slot, std::uint64_t offset, std::span<std::byte> to) noexcept;

  Status deliver(std::size_t index, std::uint64_t item_offset, std::span<const std::byte> stored);
  Status cast(std::size_t index, std::uint64_t item_offset, std::span<const std::byte> stored);
  void finish(std::size_t index, std::uint64_t bytes) noexcept;
  std::byte* destination(std::size_t index, std::uint64_t offset, std::size_t size);

  ExecutionState& run_;
  io::ReaderThread thread_;
  std::span<const std::size_t> indices_;  // of the items of the job
  io::BounceBuffer gather_bounce_;        // for short pieces of slices
  unsigned gathers_ = 0;                  // lists of short pieces so far
  bool maps_ = false;                     // copies from a map cost less than reads
  io::BounceBuffer staging_;              // for bytes that are cast or scattered

  // State of a job whose results go to a device.
  std::byte* pinned_ = nullptr;  // a slot of the ring
  std::size_t pinned_used_ = 0;
  std::vector<device::CopyRing::Part> parts_;                  // ranges of the slot, and their addresses on the device
  std::vector<std::pair<std::size_t, std::uint64_t>> copied_;  // per part: index of the item, and number of bytes
};

}  // namespace safetensors::plan
