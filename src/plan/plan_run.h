// A plan that is being executed: what its threads share, and what each of them does.
#pragma once

#include <safetensors/read_plan.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "device/ring.h"
#include "io/source_reader.h"
#include "os/thread_usage.h"
#include "plan/plan_item.h"
#include "plan/plan_jobs.h"

namespace safetensors::plan {

// What becomes of an item while it is read.
struct PlanSlot {
  const io::SourceReader* path = nullptr;
  Source::Memory mapped = {};  // the tensor's bytes, where the Source has them
  std::byte* memory = nullptr;
  std::shared_ptr<std::byte> owner = nullptr;
  device::CopyRing* ring = nullptr;    // through which it goes to its device
  std::atomic<std::uint64_t> left{0};  // bytes of the result that are not there yet
};

class PlanRun {
 public:
  // The items must outlive this, and options what they point to. in_order: as added, else as they lie in the files.
  PlanRun(std::span<const PlanItem> items, const ReadOptions& options, bool in_order);
  PlanRun(const PlanRun&) = delete;
  PlanRun& operator=(const PlanRun&) = delete;

  // What destinations on devices need, before anything else. Errors: device::Cuda's and CopyRing's.
  [[nodiscard]] Status open_devices();
  // Waits until all that was copied to devices is there. Error: device_failed.
  [[nodiscard]] Status finish_devices() noexcept;
  // Items are handed out one by one: their bytes must be where they go when a job ends.
  [[nodiscard]] bool in_order() const noexcept { return in_order_; }

  // Memory for the items order()[first, first + count). Error: out_of_memory.
  [[nodiscard]] Status place(std::size_t first, std::size_t count);
  [[nodiscard]] Array take_array(std::size_t item);

  [[nodiscard]] std::span<const PlanItem> items() const noexcept { return items_; }
  [[nodiscard]] std::span<const std::size_t> order() const noexcept { return order_; }
  [[nodiscard]] const ReadOptions& options() const noexcept { return options_; }
  [[nodiscard]] PlanSlot& slot(std::size_t item) noexcept { return slots_[item]; }
  [[nodiscard]] unsigned threads() const noexcept { return threads_; }
  [[nodiscard]] std::size_t chunk(std::size_t item) const noexcept;
  // Of the budget, what threads may hold besides results.
  [[nodiscard]] std::uint64_t staging_bytes() const noexcept;
  [[nodiscard]] std::uint64_t total() const noexcept { return total_; }
  [[nodiscard]] std::uint64_t done() const noexcept { return done_.load(std::memory_order_relaxed); }
  void add_done(std::uint64_t bytes) noexcept { done_.fetch_add(bytes, std::memory_order_relaxed); }

  void add(const io::ReadCounts& counts, std::uint64_t mapped, const os::ThreadUsage& usage) noexcept;
  [[nodiscard]] ReadReport report(double seconds) const;

 private:
  void make_paths();
  void sort_order();
  void choose_threads();
  void bound_by_work();
  void bound_by_rings();
  [[nodiscard]] device::RingOptions ring_options(std::size_t devices) const noexcept;
  [[nodiscard]] std::uint32_t phase(std::size_t number) const noexcept;

  const std::span<const PlanItem> items_;
  const ReadOptions options_;
  const bool in_order_;
  std::vector<std::size_t> order_;
  std::unique_ptr<PlanSlot[]> slots_;
  std::vector<std::unique_ptr<io::SourceReader>> paths_;
  std::vector<const detail::FileState*> files_;  // of each path
  std::vector<std::unique_ptr<device::CopyRing>> rings_;
  std::uint64_t total_ = 0;
  unsigned threads_ = 1;
  std::size_t most_ = 0;  // that a job may read
  std::size_t device_chunk_ = ~std::size_t{0};
  std::atomic<std::uint64_t> done_{0};

  mutable std::mutex mutex_;  // of what follows
  bool huge_refused_ = false;
  io::ReadCounts counts_;
  std::uint64_t mapped_ = 0;
  os::ThreadUsage usage_;
};

// What one thread does with jobs, and the memory that it does it with.
class PlanWorker {
 public:
  explicit PlanWorker(PlanRun& run) noexcept : run_(run) {}
  PlanWorker(const PlanWorker&) = delete;
  PlanWorker& operator=(const PlanWorker&) = delete;

  // Errors name tensor, path and offset. Afterwards left of the job's items is less by what was read, and the run has
  // been told what it took.
  [[nodiscard]] Status work(const PlanJob& job) noexcept;

 private:
  class Bytes;
  Status run(const PlanJob& job);
  Status run_on_device(const PlanJob& job, device::CopyRing& ring);
  Status stretch(const PlanJob& job);
  Status batch(const PlanJob& job);
  Status read_batch(const PlanJob& job, std::span<std::byte> memory) noexcept;
  Status pieces(const PlanJob& job);
  Status read(const PlanItem& item, const PlanSlot& slot, std::uint64_t offset, std::span<std::byte> to) noexcept;
  void deliver(std::size_t number, std::uint64_t at, std::span<const std::byte> stored);
  void arrived(std::size_t number, std::uint64_t at, std::span<const std::byte> bytes) noexcept;
  void count(std::size_t number, std::uint64_t size) noexcept;
  std::byte* place(std::size_t number, std::uint64_t at, std::size_t size);
  Result<std::span<std::byte>> staging(const PlanItem& item, std::size_t size);

  PlanRun& run_;
  os::ThreadClock clock_;
  io::ReadCounts counts_;
  std::uint64_t mapped_ = 0;
  io::BounceBuffer direct_;
  io::BounceBuffer gather_;
  std::byte* pinned_ = nullptr;  // of a job whose results go to a device; parts_ says what of it goes where
  std::size_t filled_ = 0;
  std::vector<device::CopyRing::Part> parts_;
  std::vector<std::pair<std::size_t, std::uint64_t>> copied_;  // item and bytes of each part
  std::shared_ptr<std::byte> stored_;                          // bytes as they are in the file
  std::size_t room_ = 0;
};

}  // namespace safetensors::plan
