// Each thread takes the next job, or a run of consecutive jobs. The last runs get shorter, so that the threads end at
// about the same time. So the calling thread, which reports the progress, does not wait long for the others.
#include "plan/execution.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "os/parallel.h"
#include "plan/worker.h"

namespace safetensors::plan {
namespace {

// The system begins each run with reads of few small pages. Measured with 8 threads and 1 GiB: 0.48 s with runs of
// 32 MiB, 0.64 s if they get shorter than 16 MiB from the middle of the file on.
constexpr std::uint64_t kShortestRun = std::uint64_t{16} << 20;

}  // namespace

Execution::Execution(ExecutionState& run, std::uint64_t run_bytes)
    : run_(run),
      run_bytes_(run_bytes),
      jobs_(run.items(), run.order(), [&run](std::size_t item) { return run.budget().chunk_bytes(run.slot(item)); }) {
  for (const Item& item : run.items()) bytes_left_ += item.stored;
}

Status Execution::execute(const std::function<Status()>& prepare) {
  read_in_threads(prepare);
  if (failed_) return std::move(error_);
  if (Status status = run_.finish_devices(); !status) return status;
  return run_.tell_progress();
}

void Execution::read_in_threads(const std::function<Status()>& prepare) noexcept {
  const unsigned threads = run_.budget().threads();
  os::ThreadGroup helpers;
  if (threads > 1) helpers.start(threads - 1, [this] { work(); });  // if fewer start, they do the same work
  if (Status status = base::guarded(prepare); !status) fail(kBeforeJobs, std::move(status).error());
  work();
  helpers.join();
}

void Execution::work() noexcept {
  Worker worker(run_);
  Run taken;
  while (take(taken)) {
    for (std::size_t i = 0; i < taken.count && is_wanted(taken.first + i); ++i) {
      if (Status status = worker.work(taken.jobs[i]); !status) {
        fail(taken.first + i, std::move(status).error());
      } else if (std::this_thread::get_id() == caller_) {
        if (status = run_.tell_progress(); !status) fail(kBeforeJobs, std::move(status).error());
      }
    }
  }
}

bool Execution::take(Run& taken) noexcept {
  const std::lock_guard lock(mutex_);
  if (failed_) return false;
  const std::uint64_t wanted = next_run_bytes();
  taken.count = 0;
  taken.first = next_ + 1;
  for (std::uint64_t bytes = 0; taken.count < Run::kMaxJobs;) {
    Job& job = taken.jobs[taken.count];
    if (jobs_.next(job, [](std::size_t) { return true; }) != Jobs::Next::job) break;
    ++taken.count;
    ++next_;
    bytes += job.size;
    bytes_left_ -= std::min(job.size, bytes_left_);  // a batch also counts the gaps between its items
    if (bytes >= wanted) break;
  }
  return taken.count != 0;
}

std::uint64_t Execution::next_run_bytes() const noexcept {
  return std::min(run_bytes_, std::max(kShortestRun, bytes_left_ / run_.budget().threads()));
}

// Jobs before the first failed one must still run, because their errors come first.
bool Execution::is_wanted(std::size_t job_index) noexcept {
  const std::lock_guard lock(mutex_);
  return !failed_ || job_index < failed_job_;
}

void Execution::fail(std::size_t job_index, Error error) noexcept {
  const std::lock_guard lock(mutex_);
  if (failed_ && failed_job_ <= job_index) return;
  failed_ = true;
  failed_job_ = job_index;
  error_ = std::move(error);
}

}  // namespace safetensors::plan
