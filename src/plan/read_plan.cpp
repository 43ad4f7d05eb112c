// Collects the items of a ReadPlan and executes it with a group of threads that take jobs in the order of the files.
#include <safetensors/read_plan.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "os/thread_group.h"
#include "plan/plan_destinations.h"
#include "plan/plan_item.h"
#include "plan/plan_jobs.h"
#include "plan/plan_names.h"
#include "plan/plan_run.h"
#include "plan/plan_worker.h"
#include "plan/read_plan.h"

namespace safetensors {
namespace plan {
namespace {

// Executes a plan with the calling thread and other threads. If several jobs fail, returns the error of the first of
// these jobs, so that the same files give the same error every time.
class Execution {
 public:
  explicit Execution(PlanRun& run)
      : run_(run),
        jobs_(run.items(), run.order(), [&run](std::size_t item) { return run.budget().chunk_bytes(run.slot(item)); }) {
  }

  // The calling thread runs `prepare` while the other threads already read. If `prepare` fails, reading stops, and its
  // error is the result.
  [[nodiscard]] Status execute(const std::function<Status()>& prepare) {
    const unsigned threads = run_.budget().threads();
    os::ThreadGroup helpers;
    if (threads > 1) helpers.start(threads - 1, [this] { work(); });  // if fewer start, they do the same work
    if (Status status = base::guarded(prepare); !status) fail(kBeforeJobs, std::move(status).error());
    work();
    helpers.join();
    if (failed_) return std::move(error_);
    if (Status status = run_.finish_devices(); !status) return status;
    return run_.tell_progress();
  }

 private:
  static constexpr std::size_t kBeforeJobs = 0;  // the job of `prepare`, before all others

  // Consecutive jobs.
  struct Run {
    static constexpr std::size_t kMaxJobs = 64;
    std::array<PlanJob, kMaxJobs> jobs;
    std::size_t count = 0;
    std::size_t first = 0;  // index of the first job
  };

  void work() noexcept {
    PlanWorker worker(run_);
    Run taken;
    while (take(taken)) {
      for (std::size_t i = 0; i < taken.count && is_wanted(taken.first + i); ++i) {
        Status status = worker.work(taken.jobs[i]);
        if (status && std::this_thread::get_id() == caller_) status = run_.tell_progress();
        if (!status) fail(taken.first + i, std::move(status).error());
      }
    }
  }
  bool take(Run& taken) noexcept {
    const std::lock_guard lock(mutex_);
    if (failed_) return false;
    taken.count = 0;
    taken.first = next_ + 1;
    for (std::uint64_t bytes = 0; taken.count < Run::kMaxJobs;) {
      PlanJob& job = taken.jobs[taken.count];
      if (jobs_.next(job, [](std::size_t) { return true; }) != PlanJobs::Next::job) break;
      ++taken.count;
      ++next_;
      bytes += job.size;
      if (bytes >= run_.budget().run_bytes()) break;
    }
    return taken.count != 0;
  }
  // Jobs before the first failed one are still wanted, because their errors come first.
  bool is_wanted(std::size_t job_index) noexcept {
    const std::lock_guard lock(mutex_);
    return !failed_ || job_index < failed_job_;
  }
  void fail(std::size_t job_index, Error error) noexcept {
    const std::lock_guard lock(mutex_);
    if (failed_ && failed_job_ < job_index) return;
    failed_ = true;
    failed_job_ = job_index;
    error_ = std::move(error);
  }

  PlanRun& run_;
  const std::thread::id caller_ = std::this_thread::get_id();
  std::mutex mutex_;  // guards the members below
  PlanJobs jobs_;
  std::size_t next_ = kBeforeJobs;
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

// Copies the state if a Stream shares it, so that the Stream goes on with the old plan.
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
    if (Status status = plan::check_destinations(items); !status) return std::move(status).error();
    plan::PlanRun run(items, options, false);
    if (Status status = run.open_devices(); !status) return std::move(status).error();
    if (Status status = run.memory().place(run.order()); !status) return std::move(status).error();
    ReadResult result;
    const auto prepare = [&]() -> Status {
      result.arrays.reserve(items.size());
      for (std::size_t i = 0; i < items.size(); ++i) result.arrays.push_back(run.memory().take(i));
      result.names = plan::name_items(items);
      if (!options.on_reserved || options.on_reserved(result.arrays)) return {};
      return base::cancelled(run.completed(), run.total());
    };
    if (Status status = plan::Execution(run).execute(prepare); !status) return std::move(status).error();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    result.report = run.report(taken.count());
    return result;
  });
}

}  // namespace v0
}  // namespace safetensors
