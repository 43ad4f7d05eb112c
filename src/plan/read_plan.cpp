// ReadPlan: collecting items, and reading them all at once.
#include <safetensors/read_plan.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "os/parallel.h"
#include "plan/plan_item.h"
#include "plan/plan_run.h"
#include "plan/read_plan.h"

namespace safetensors {
namespace plan {
namespace {

// Each task is a thread that takes jobs until there are none.
class ExecuteTasks final : public os::Tasks {
 public:
  explicit ExecuteTasks(PlanRun& run)
      : run_(run), jobs_(run.items(), run.order(), [&run](std::size_t item) { return run.chunk(item); }) {}

  [[nodiscard]] Status run(std::size_t) noexcept override {
    PlanWorker worker(run_);
    PlanJob job;
    for (std::size_t number = 0; take(job, number);) {
      Status status = worker.work(job);
      if (status && std::this_thread::get_id() == caller_) status = tell_progress();
      if (!status) fail(number, std::move(status).error());
    }
    return {};
  }
  // After all threads have ended.
  [[nodiscard]] Status result() {
    if (failed_) return std::move(error_);
    if (Status status = run_.finish_devices(); !status) return status;
    return tell_progress();
  }

 private:
  bool take(PlanJob& job, std::size_t& number) noexcept {
    const std::lock_guard lock(mutex_);
    if (failed_) return false;
    number = next_++;
    return jobs_.next(job, [](std::size_t) { return true; }) == PlanJobs::Next::job;
  }
  // Of several failures that of the first job counts.
  void fail(std::size_t number, Error error) noexcept {
    const std::lock_guard lock(mutex_);
    if (failed_ && failed_job_ < number) return;
    failed_ = true;
    failed_job_ = number;
    error_ = std::move(error);
  }
  Status tell_progress() noexcept {
    const ReadOptions& options = run_.options();
    const std::uint64_t done = run_.done();
    if (!options.progress || options.progress(done, run_.total())) return {};
    return base::cancelled(done, run_.total());
  }

  PlanRun& run_;
  const std::thread::id caller_ = std::this_thread::get_id();
  std::mutex mutex_;  // of what follows
  PlanJobs jobs_;
  std::size_t next_ = 0;
  bool failed_ = false;
  std::size_t failed_job_ = 0;
  Error error_;
};

}  // namespace

}  // namespace plan

inline namespace v0 {

ReadPlan::ReadPlan() noexcept = default;
ReadPlan::ReadPlan(ReadPlan&&) noexcept = default;
ReadPlan& ReadPlan::operator=(ReadPlan&&) noexcept = default;
ReadPlan::~ReadPlan() = default;

Status ReadPlan::add(const Tensor& tensor, const Destination& destination, const AddOptions& options) noexcept {
  return base::guarded([&]() -> Status { return State::add(state_, tensor, nullptr, destination, options); });
}

Status ReadPlan::add(const Tensor& tensor, const Slice& slice, const Destination& destination,
                     const AddOptions& options) noexcept {
  return base::guarded([&]() -> Status { return State::add(state_, tensor, &slice, destination, options); });
}

// A stream that is under way keeps the plan as it was.
Status ReadPlan::State::add(std::shared_ptr<State>& state, const Tensor& tensor, const Slice* slice,
                            const Destination& destination, const AddOptions& options) {
  Result<plan::PlanItem> item = plan::make_item(tensor, slice, destination, options);
  if (!item) return std::move(item).error();
  std::uint64_t bytes = 0;
  if (!base::add(state ? state->bytes : 0, item->size, bytes))
    return item->file().describe(
        item->info(),
        base::make_error(Errc::size_overflow, "the results of the plan would be larger than 2^64-1 bytes"));
  if (!state)
    state = std::make_shared<State>();
  else if (state.use_count() > 1)
    state = std::make_shared<State>(*state);
  state->items.push_back(*std::move(item));
  state->bytes = bytes;
  return {};
}

std::size_t ReadPlan::size() const noexcept {
  return state_ ? state_->items.size() : 0;
}

std::uint64_t ReadPlan::nbytes() const noexcept {
  return state_ ? state_->bytes : 0;
}

Result<ReadResult> ReadPlan::execute(const ReadOptions& options) const noexcept {
  return base::guarded([&]() -> Result<ReadResult> {
    const auto begin = std::chrono::steady_clock::now();
    const std::span<const plan::PlanItem> items =
        state_ ? std::span<const plan::PlanItem>(state_->items) : std::span<const plan::PlanItem>();
    plan::PlanRun run(items, options, false);
    if (Status status = run.open_devices(); !status) return std::move(status).error();
    if (Status status = run.place(0, items.size()); !status) return std::move(status).error();
    plan::ExecuteTasks crew(run);
    if (Status status = os::run_parallel(crew, run.threads(), run.threads()); !status) return std::move(status).error();
    if (Status status = crew.result(); !status) return std::move(status).error();
    ReadResult result;
    result.arrays.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) result.arrays.push_back(run.take_array(i));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    result.report = run.report(taken.count());
    return result;
  });
}

}  // namespace v0
}  // namespace safetensors
