// A plan that is being executed: the state that its threads share, the memory of its results, and its devices.
#pragma once

#include <safetensors/read_plan.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/ring.h"
#include "io/source_reader.h"
#include "plan/budget.h"
#include "plan/item.h"

namespace safetensors::plan {

class ExecutionState {
 public:
  // If streamed, items are read in the order of add(), and each is complete when its last job ends. Otherwise, items
  // are read in the order of the files. The items and the objects that options point to must outlive this. May throw
  // std::bad_alloc.
  ExecutionState(std::span<const Item> all, const ReadOptions& given, bool as_stream);
  ExecutionState(const ExecutionState&) = delete;
  ExecutionState& operator=(const ExecutionState&) = delete;

  // Call this before any other function. Opens the driver if an item has a destination on a device, and makes a ring of
  // pinned memory for each device. Errors: invalid_argument, and those of device::Cuda and device::CopyRing. May throw
  // std::bad_alloc.
  [[nodiscard]] Status open_devices();
  // Reserves memory for the items with these indices, without touching it. An item with a destination uses the
  // destination instead. Error: out_of_memory, which names the tensor if there is only one index. May throw
  // std::bad_alloc. place() and take() of different items may run at once.
  [[nodiscard]] Status place(std::span<const std::size_t> indices);
  // Reads all items. The calling thread runs `prepare` while the other threads already read. If several jobs fail, the
  // error of the first of these jobs is the result, so that the same files give the same error every time. The error of
  // `prepare`, and a cancellation by the caller, come before those of all jobs. run_bytes: as Budget::run_bytes().
  [[nodiscard]] Status execute(std::uint64_t run_bytes, const std::function<Status()>& prepare);
  // Hands out the result of an item. Call it once per item.
  [[nodiscard]] Array take(std::size_t index);

  [[nodiscard]] const Budget& budget() const noexcept { return budget_; }
  // The next four functions are thread-safe.
  [[nodiscard]] std::uint64_t completed() const noexcept { return completed_.load(std::memory_order_relaxed); }
  void add_completed(std::size_t index, std::uint64_t bytes) noexcept;
  void add(const io::ReadCounts& counts) noexcept;
  // May throw std::bad_alloc.
  [[nodiscard]] ReadReport report() const;
  // Calls ReadOptions::progress. Runs in the caller's thread. Error: cancelled.
  [[nodiscard]] Status tell_progress() const noexcept;

  const std::span<const Item> items;
  const ReadOptions options;
  const bool streamed;
  const std::unique_ptr<Slot[]> slots;  // one per item
  std::vector<std::size_t> order;       // indices of items, in the order in which they are read
  std::uint64_t total = 0;              // bytes of all results

 private:
  struct FileUse;

  [[nodiscard]] std::uint32_t phase(std::size_t index) const noexcept;
  std::vector<std::unique_ptr<io::SourceReader>> make_readers();
  void choose_cache(std::span<const std::unique_ptr<io::SourceReader>> readers);

  Cache cache_ = Cache::keep;  // the mode that is used
  std::vector<const detail::FileState*> files_;
  std::vector<std::unique_ptr<io::SourceReader>> readers_;  // one per file
  Budget budget_;
  std::vector<std::unique_ptr<device::CopyRing>> rings_;  // one per device
  std::atomic<std::uint64_t> completed_{0};
  mutable std::mutex mutex_;  // guards counts_
  io::ReadCounts counts_;
};

}  // namespace safetensors::plan
