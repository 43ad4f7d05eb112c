// A plan that is being executed: the state that its threads share, the memory of its results, and its devices.
#pragma once

#include <safetensors/read_plan.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/ring.h"
#include "io/source_reader.h"
#include "plan/budget.h"
#include "plan/item.h"

namespace safetensors::plan {

// The cost of one job.
struct JobCost {
  io::ReadCounts reads;
  std::uint64_t bytes_mapped = 0;
};

class ExecutionState {
 public:
  // If streamed, items are read in the order of add(), and each is complete when its last job ends. Otherwise, items
  // are read in the order of the files. The items and the objects that options point to must outlive this. May throw
  // std::bad_alloc.
  ExecutionState(std::span<const Item> items, const ReadOptions& options, bool streamed);
  ExecutionState(const ExecutionState&) = delete;
  ExecutionState& operator=(const ExecutionState&) = delete;

  // Call this before any other function. Opens the driver if an item has a destination on a device, and makes a ring of
  // pinned memory for each device. Errors: invalid_argument, and those of device::Cuda and device::CopyRing. May throw
  // std::bad_alloc.
  [[nodiscard]] Status open_devices();
  // Waits until all copies to devices have ended. Error: device_failed.
  [[nodiscard]] Status finish_devices() noexcept;

  // Reserves memory for the items with these indices, without touching it. An item with a destination uses the
  // destination instead. Error: out_of_memory, which names the tensor if there is only one index. May throw
  // std::bad_alloc. place() and take() of different items may run at once.
  [[nodiscard]] Status place(std::span<const std::size_t> indices);
  // Hands out the result of an item. Call it once per item.
  [[nodiscard]] Array take(std::size_t index);

  [[nodiscard]] std::span<const Item> items() const noexcept { return items_; }
  // Indices of items, in the order in which they are read.
  [[nodiscard]] std::span<const std::size_t> order() const noexcept { return order_; }
  [[nodiscard]] Slot& slot(std::size_t index) noexcept { return slots_[index]; }
  [[nodiscard]] const ReadOptions& options() const noexcept { return options_; }
  [[nodiscard]] const Budget& budget() const noexcept { return budget_; }
  [[nodiscard]] bool streamed() const noexcept { return streamed_; }

  // Number of bytes of all results.
  [[nodiscard]] std::uint64_t total() const noexcept { return total_; }
  [[nodiscard]] std::uint64_t completed() const noexcept { return completed_.load(std::memory_order_relaxed); }
  void add_completed(std::size_t index, std::uint64_t bytes) noexcept;
  // Calls ReadOptions::progress. Runs in the caller's thread. Error: cancelled.
  [[nodiscard]] Status tell_progress() const noexcept;

  void add(const JobCost& cost) noexcept;
  // May throw std::bad_alloc.
  [[nodiscard]] ReadReport report() const;

 private:
  struct FileUse;

  [[nodiscard]] std::uint32_t phase(std::size_t index) const noexcept;
  std::vector<std::unique_ptr<io::SourceReader>> make_readers();
  void choose_cache(std::span<const std::unique_ptr<io::SourceReader>> readers);
  void sort_order();

  const std::span<const Item> items_;
  const ReadOptions options_;
  const bool streamed_;
  std::vector<std::size_t> order_;
  const std::unique_ptr<Slot[]> slots_;  // one per item
  Cache cache_ = Cache::keep;            // the mode that is used
  std::vector<const detail::FileState*> files_;
  std::vector<std::unique_ptr<io::SourceReader>> readers_;  // one per file
  Budget budget_;
  std::vector<std::unique_ptr<device::CopyRing>> rings_;  // one per device
  std::uint64_t total_ = 0;
  std::atomic<std::uint64_t> completed_{0};

  mutable std::mutex mutex_;  // guards cost_
  JobCost cost_;
};

}  // namespace safetensors::plan
