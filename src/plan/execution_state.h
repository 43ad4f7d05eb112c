// A plan that is being executed: the state that its threads share.
#pragma once

#include <safetensors/read_plan.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "io/source_reader.h"
#include "os/thread_usage.h"
#include "plan/budget.h"
#include "plan/devices.h"
#include "plan/item.h"
#include "plan/memory.h"

namespace safetensors::plan {

// The cost of one job.
struct JobCost {
  io::ReadCounts reads;
  std::uint64_t bytes_mapped = 0;
  std::uint64_t bytes_in_small_pages = 0;  // bytes of results that were meant for huge pages
  os::ThreadUsage usage;
};

class ExecutionState {
 public:
  // If streamed, items are read in the order of add(), and each is complete when its last job ends. Otherwise, items
  // are read in the order of the files. The items and the objects that options point to must outlive this. May throw
  // std::bad_alloc.
  ExecutionState(std::span<const Item> items, const ReadOptions& options, bool streamed);
  ExecutionState(const ExecutionState&) = delete;
  ExecutionState& operator=(const ExecutionState&) = delete;

  // Call this before any other function. Errors: those of Devices::open(). May throw std::bad_alloc.
  [[nodiscard]] Status open_devices() { return devices_.open(items_, slots(), options_, budget_); }
  // Waits until all copies to devices have ended. Error: device_failed.
  [[nodiscard]] Status finish_devices() noexcept { return devices_.finish(); }

  [[nodiscard]] std::span<const Item> items() const noexcept { return items_; }
  // Indices of items, in the order in which they are read.
  [[nodiscard]] std::span<const std::size_t> order() const noexcept { return order_; }
  [[nodiscard]] Slot& slot(std::size_t index) noexcept { return slots_[index]; }
  [[nodiscard]] const ReadOptions& options() const noexcept { return options_; }
  [[nodiscard]] const Budget& budget() const noexcept { return budget_; }
  [[nodiscard]] Memory& memory() noexcept { return memory_; }
  [[nodiscard]] bool streamed() const noexcept { return streamed_; }

  // Number of bytes of all results.
  [[nodiscard]] std::uint64_t total() const noexcept { return total_; }
  [[nodiscard]] std::uint64_t completed() const noexcept { return completed_.load(std::memory_order_relaxed); }
  void add_completed(std::size_t index, std::uint64_t bytes) noexcept;
  // Calls ReadOptions::progress. Runs in the caller's thread. Error: cancelled.
  [[nodiscard]] Status tell_progress() const noexcept;

  void add(const JobCost& cost) noexcept;
  // May throw std::bad_alloc.
  [[nodiscard]] ReadReport report(double seconds) const;

 private:
  struct FileUse;

  [[nodiscard]] std::span<Slot> slots() noexcept { return {slots_.get(), items_.size()}; }
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
  Memory memory_;
  Devices devices_;
  std::uint64_t total_ = 0;
  std::atomic<std::uint64_t> completed_{0};

  mutable std::mutex mutex_;  // guards cost_
  JobCost cost_;
};

}  // namespace safetensors::plan
