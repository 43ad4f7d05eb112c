// Hands out the items of a plan while others are read. Threads take jobs under one mutex. They wait while the budget is
// full of results that the caller has not taken.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "os/memory.h"
#include "os/parallel.h"
#include "os/process.h"
#include "os/system_error.h"
#include "plan/execution_state.h"
#include "plan/item.h"
#include "plan/jobs.h"
#include "plan/worker.h"

namespace safetensors {
inline namespace v0 {
namespace {

constexpr std::chrono::milliseconds kBetweenReports{50};
constexpr std::chrono::milliseconds kMaxWait = std::chrono::hours(24 * 365 * 100);  // longer waits overflow the clock

}  // namespace

struct Stream::State {
  State(std::shared_ptr<const ReadPlan::State> what, const ReadOptions& options)
      : plan(std::move(what)),
        run(plan ? std::span<const plan::Item>(plan->items) : std::span<const plan::Item>(), options, true),
        jobs(run),
        announced(run.items.size()) {}
  ~State() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    capacity_changed.notify_all();
    threads.join();
  }

  Status start() {
    if (Status status = run.open_devices(); !status) return status;
    const std::lock_guard lock(mutex);  // blocks the threads until `working` is set
    const unsigned wanted = run.items.empty() ? 0 : run.budget().threads();
    const int error_number = threads.start(wanted, [this] { work(); });
    working = threads.size();
    if (wanted != 0 && working == 0)
      return os::system_error(Errc::out_of_memory, error_number, "cannot start a thread to read");
    return {};
  }

  void cancel() noexcept {
    const std::lock_guard lock(mutex);
    ready.clear();
    fail(base::cancelled(run.completed(), run.total));
  }

  bool wait_for(std::chrono::milliseconds limit) noexcept {
    std::unique_lock lock(mutex);
    return ready_changed.wait_for(lock, std::clamp(limit, std::chrono::milliseconds(0), kMaxWait),
                                  [&] { return failure || !ready.empty() || working == 0; });
  }

  Result<std::optional<StreamItem>> next() {
    while (!wait_for(kBetweenReports)) tell_progress();
    std::unique_lock lock(mutex);
    if (ready.empty()) {
      if (failure) return *failure;
      return std::optional<StreamItem>();
    }
    const std::size_t item = ready.front();
    ready.pop_front();
    held_bytes -= run.items[item].host_bytes();
    capacity_changed.notify_all();
    lock.unlock();
    Result<StreamItem> taken = base::guarded([&]() -> Result<StreamItem> { return StreamItem{item, run.take(item)}; });
    if (taken && tell_progress()) return std::optional<StreamItem>(*std::move(taken));
    lock.lock();
    // The item is off the list and is not handed out. It is lost, so no later call may succeed.
    ready.clear();
    if (!taken) fail(std::move(taken).error());
    return *failure;
  }

  const std::uint64_t process = os::process_id();
  const std::shared_ptr<const ReadPlan::State> plan;  // null for a plan without items
  plan::ExecutionState run;

 private:
  void work() noexcept {
    {
      plan::Worker worker(run);
      std::unique_lock lock(mutex);
      while (!stopping && !failure) {
        plan::Job job;
        if (!jobs.next(job, [this](std::size_t item) { return admit(item); })) {
          if (jobs.ended()) break;
          if (!failure) capacity_changed.wait(lock);
          continue;
        }
        lock.unlock();
        Status status = worker.work(job);
        lock.lock();
        if (status) status = base::guarded([&]() -> Status { return announce(job), Status(); });
        if (!status) fail(std::move(status).error());
      }
    }
    const std::lock_guard lock(mutex);
    --working;
    capacity_changed.notify_all();
    ready_changed.notify_all();
  }

  // Called under the mutex. Reserves memory without touching it.
  bool admit(std::size_t item) noexcept {
    const std::uint64_t size = run.items[item].host_bytes();
    const std::uint64_t budget = run.budget().result_bytes();
    if (held_bytes != 0 && (size > budget || held_bytes > budget - size)) return false;
    Status status = admitted < placed ? Status() : base::guarded([&] { return place_next(); });
    if (!status) {
      fail(std::move(status).error());
      return false;
    }
    ++admitted;
    held_bytes += size;
    return true;
  }

  // Small neighbours share a huge page. From malloc, their memory would stay with the process when they are dropped. If
  // the budget is small, they share less, because memory that is shared may be held beyond it.
  Status place_next() {
    const std::span<const std::size_t> order = std::span<const std::size_t>(run.order).subspan(placed);
    const std::uint64_t enough = std::min<std::uint64_t>(os::kHugePage, run.budget().result_bytes() / 8);
    std::uint64_t bytes = run.items[order[0]].host_bytes();
    std::size_t count = 1;
    while (bytes < enough && count < order.size() && run.items[order[count]].host_bytes() < enough)
      bytes += run.items[order[count++]].host_bytes();
    placed += count;
    return run.place(order.first(count));
  }

  // After a failure, next() may have returned the error. Then it must not return an item again.
  void announce(const plan::Job& job) {
    if (failure) return;
    for (std::size_t item = job.first; item < job.first + job.count; ++item) {
      if (announced[item] || run.slots[item].remaining.load() != 0) continue;
      ready.push_back(item);
      announced[item] = true;
    }
    ready_changed.notify_all();
  }

  void fail(Error error) noexcept {
    if (!failure) failure = std::move(error);
    capacity_changed.notify_all();
    ready_changed.notify_all();
  }

  // Called without the mutex, because the caller's function may call cancel(). Returns false if that function cancels.
  bool tell_progress() noexcept {
    if (run.tell_progress()) return true;
    cancel();
    return false;
  }

  std::mutex mutex;  // guards the members below
  std::condition_variable ready_changed;
  std::condition_variable capacity_changed;
  plan::Jobs jobs;
  std::deque<std::size_t> ready;  // complete items that the caller has not taken
  std::vector<bool> announced;
  std::size_t admitted = 0;      // number of items that were admitted, in the order of execution
  std::size_t placed = 0;        // number of items that have memory
  std::uint64_t held_bytes = 0;  // of results on the host that were begun and that the caller has not taken
  bool stopping = false;
  std::optional<Error> failure;
  std::size_t working = 0;  // threads that have not ended
  os::ThreadGroup threads;
};

Result<std::optional<StreamItem>> Stream::next() noexcept {
  return base::guarded([&]() -> Result<std::optional<StreamItem>> {
    if (!state_) return std::optional<StreamItem>();
    return state_->next();
  });
}

bool Stream::wait_for(std::int64_t milliseconds) const noexcept {
  return !state_ || state_->wait_for(std::chrono::milliseconds(milliseconds));
}

void Stream::cancel() noexcept {
  if (state_) state_->cancel();
}

Result<ReadReport> Stream::report() const noexcept {
  return base::guarded([&]() -> Result<ReadReport> {
    if (!state_) return ReadReport();
    return state_->run.report();
  });
}

Result<Stream> ReadPlan::stream(const ReadOptions& options) const noexcept {
  return base::guarded([&]() -> Result<Stream> {
    if (state_) {
      if (Status status = plan::check_destinations(state_->items); !status) return std::move(status).error();
    }
    const std::shared_ptr<Stream::State> state(new Stream::State(state_, options), [](Stream::State* old) {
      if (os::process_id() == old->process) delete old;
    });
    if (Status status = state->start(); !status) return std::move(status).error();
    return Stream(state);
  });
}

}  // namespace v0
}  // namespace safetensors
