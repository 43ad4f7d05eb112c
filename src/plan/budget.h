// Decides how much of a plan is read at once, and how a plan divides its memory budget.
#pragma once

#include <safetensors/read_plan.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "device/ring.h"
#include "io/source_reader.h"
#include "plan/item.h"

namespace safetensors::plan {

// The budget of a Stream without ReadOptions::memory_limit, in bytes.
inline constexpr std::uint64_t kDefaultStreamBudget = std::uint64_t{256} << 20;

// Divides ReadOptions::memory_limit:
//   - Up to one half limits threads() x chunk_bytes(), the bytes that are being read, converted or gathered.
//   - If the plan has destinations on devices, up to one half is pinned memory. In a Stream that also has results in
//     memory of the host, up to a quarter is.
//   - A Stream may hold result_bytes() of results in memory of the host: the budget minus pinned memory and staging
//     buffers. Stream::admit() applies this limit. Results on devices take no memory of the host.
// Without a budget, threads x chunk is the only limit of execute(), and a Stream has a budget of 256 MiB.
class Budget {
 public:
  // streamed: whether the budget is for a Stream. May throw std::bad_alloc.
  Budget(const ReadOptions& options, bool streamed, std::span<const Item> items,
         std::span<const std::unique_ptr<io::SourceReader>> readers);

  // Number of reader threads.
  [[nodiscard]] unsigned threads() const noexcept { return threads_; }
  // Maximum number of bytes that one job reads for the item of the slot.
  [[nodiscard]] std::size_t chunk_bytes(const Slot& slot) const noexcept;
  // A thread of execute() takes consecutive jobs together until they have at most so many bytes. 0: one job at a time.
  // While a thread reads one range after the other, the system reads ahead of it.
  [[nodiscard]] std::uint64_t run_bytes() const noexcept { return run_bytes_; }
  // Maximum number of bytes of results in memory of the host that a Stream holds. A larger result is held alone.
  [[nodiscard]] std::uint64_t result_bytes() const noexcept { return result_bytes_; }

  // Options of the ring of pinned memory of each device. devices: number of devices of the plan.
  [[nodiscard]] device::RingOptions ring_options(const ReadOptions& options, std::size_t devices) const noexcept;
  // Call it once, with the rings of all devices. Makes the result of every job fit into a slot of a ring. Limits the
  // threads, so that devices can empty some slots while threads fill others. Sets result_bytes(). A ring may have less
  // memory than ring_options() asked for.
  void fit(std::span<const Item> items, std::span<const std::unique_ptr<device::CopyRing>> rings) noexcept;

 private:
  std::uint64_t memory_limit_;  // 0: no limit
  bool results_wait_;           // results in memory of the host wait for Stream::next()
  unsigned threads_ = 1;
  std::uint64_t run_bytes_ = 0;
  std::size_t max_chunk_ = 0;     // for results in memory of the host
  std::size_t max_device_chunk_;  // for results on devices
  std::uint64_t result_bytes_ = 0;
};

}  // namespace safetensors::plan
