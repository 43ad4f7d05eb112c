// Each thread takes the next job, or a run of consecutive jobs. The last runs get shorter, so that the threads end at
// about the same time. So the calling thread, which reports the progress, does not wait long for the others.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "os/parallel.h"
#include "plan/execution_state.h"
#include "plan/jobs.h"
#include "plan/worker.h"

namespace safetensors::plan {
namespace {

// The system begins each run with reads of few small pages. Measured with 8 threads and 1 GiB: 0.48 s with runs of
// 32 MiB, 0.64 s if they get shorter than 16 MiB from the middle of the file on.
constexpr std::uint64_t kShortestRun = std::uint64_t{16} << 20;

class Execution {
 public:
  Execution(ExecutionState& run, std::uint64_t run_bytes) : run_(run), run_bytes_(run_bytes), jobs_(run) {
    for (const Item& item : run.items) bytes_left_ += item.stored;
  }

  // The calling thread is one of the threads.
  Status read_in_threads(const std::function<Status()>& prepare) noexcept {
    const unsigned threads = run_.budget().threads();
    os::ThreadGroup helpers;
    if (threads > 1) helpers.start(threads - 1, [this] { work(); });  // if fewer start, they do the same work
    fail(kBeforeJobs, base::guarded(prepare));
    work();
    helpers.join();
    return std::move(failure_);
  }

 private:
  static constexpr std::size_t kBeforeJobs = 0;  // errors of `prepare` and a cancellation come before all jobs

  // Consecutive jobs.
  struct Run {
    static constexpr std::size_t kMaxJobs = 64;
    std::array<Job, kMaxJobs> jobs;
    std::size_t count = 0;
    std::size_t first = 0;  // index of the first job
  };

  void work() noexcept {
    Worker worker(run_);
    Run taken;
    while (take(taken)) {
      for (std::size_t i = 0; i < taken.count && is_wanted(taken.first + i); ++i) {
        Status status = worker.work(taken.jobs[i]);
        if (status && std::this_thread::get_id() == caller_) fail(kBeforeJobs, run_.tell_progress());
        fail(taken.first + i, std::move(status));
      }
    }
  }

  bool take(Run& taken) noexcept {
    const std::lock_guard lock(mutex_);
    if (!failure_) return false;
    const std::uint64_t wanted = std::min(run_bytes_, std::max(kShortestRun, bytes_left_ / run_.budget().threads()));
    taken.count = 0;
    taken.first = next_ + 1;
    for (std::uint64_t bytes = 0; taken.count < Run::kMaxJobs;) {
      Job& job = taken.jobs[taken.count];
      if (!jobs_.next(job, [](std::size_t) { return true; })) break;
      ++taken.count;
      ++next_;
      bytes += job.size;
      bytes_left_ -= std::min(job.size, bytes_left_);  // a batch also counts the gaps between its items
      if (bytes >= wanted) break;
    }
    return taken.count != 0;
  }

  // Jobs before the first failed one must still run, because their errors come first.
  bool is_wanted(std::size_t job_index) noexcept {
    const std::lock_guard lock(mutex_);
    return failure_ || job_index < failed_job_;
  }

  void fail(std::size_t job_index, Status status) noexcept {
    if (status) return;
    const std::lock_guard lock(mutex_);
    if (!failure_ && failed_job_ <= job_index) return;
    failed_job_ = job_index;
    failure_ = std::move(status);
  }

  ExecutionState& run_;
  const std::uint64_t run_bytes_;
  const std::thread::id caller_ = std::this_thread::get_id();
  std::mutex mutex_;  // guards the members below
  Jobs jobs_;
  std::size_t next_ = kBeforeJobs;
  std::uint64_t bytes_left_ = 0;  // of jobs that no thread has taken
  std::size_t failed_job_ = 0;
  Status failure_;
};

}  // namespace

Status ExecutionState::execute(std::uint64_t run_bytes, const std::function<Status()>& prepare) {
  Status status = Execution(*this, run_bytes).read_in_threads(prepare);
  for (std::size_t i = 0; status && i < rings_.size(); ++i) status = rings_[i]->finish();
  return status ? tell_progress() : status;
}

}  // namespace safetensors::plan
