// Stream: a plan whose items are handed out while others are read.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "os/system_error.h"
#include "plan/plan_run.h"
#include "plan/read_plan.h"

namespace safetensors {
inline namespace v0 {
namespace {

constexpr std::uint64_t kDefaultBudget = 256 << 20;
constexpr auto kBetweenReports = std::chrono::milliseconds(50);

ReadOptions with_budget(ReadOptions options) {
  if (options.memory_budget == 0) options.memory_budget = kDefaultBudget;
  return options;
}

}  // namespace

struct Stream::State {
  State(std::shared_ptr<const ReadPlan::State> what, const ReadOptions& options)
      : plan(std::move(what)),
        run(items(), with_budget(options), true),
        jobs(run.items(), run.order(), [this](std::size_t item) { return run.chunk(item); }),
        announced(items().size()) {
    const std::uint64_t staging = run.staging_bytes();
    budget = run.options().memory_budget - std::min(staging, run.options().memory_budget);
  }
  ~State() { stop(); }

  Status start() noexcept;
  void stop() noexcept;
  void work() noexcept;
  void cancel() noexcept;
  Result<std::optional<StreamItem>> next();
  [[nodiscard]] double seconds() const noexcept {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  const ::pid_t process = ::getpid();
  const std::shared_ptr<const ReadPlan::State> plan;  // null: nothing was added
  const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  plan::PlanRun run;

 private:
  [[nodiscard]] std::span<const plan::PlanItem> items() const noexcept {
    return plan ? std::span<const plan::PlanItem>(plan->items) : std::span<const plan::PlanItem>();
  }
  bool admit(std::size_t item) noexcept;
  void announce(const plan::PlanJob& job);
  void fail(Error error) noexcept;
  void tell_progress() noexcept;

  std::mutex mutex;  // of all that follows
  std::condition_variable ready_changed;
  std::condition_variable room_changed;
  plan::PlanJobs jobs;
  std::deque<std::size_t> ready;  // complete and not yet taken
  std::vector<bool> announced;
  std::uint64_t budget = 0;
  std::uint64_t in_flight = 0;  // of results that were begun and not yet taken
  bool stopping = false;
  std::optional<Error> failure;
  unsigned working = 0;
  std::vector<std::thread> threads;
};

Status Stream::State::start() noexcept {
  return base::guarded([&]() -> Status {
    if (Status status = run.open_devices(); !status) return status;
    const unsigned wanted = items().empty() ? 0 : run.threads();
    threads.reserve(wanted);
    const std::lock_guard lock(mutex);
    for (unsigned i = 0; i < wanted; ++i) {
      try {
        threads.emplace_back([this] { work(); });
      } catch (const std::system_error& error) {
        if (threads.empty())
          return os::system_error(Errc::out_of_memory, error.code().value(), "cannot start a thread to read");
        break;  // those that there are do the work
      }
      ++working;
    }
    return {};
  });
}

void Stream::State::stop() noexcept {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  room_changed.notify_all();
  for (std::thread& thread : threads) thread.join();
  threads.clear();
}

void Stream::State::work() noexcept {
  {
    plan::PlanWorker worker(run);
    std::unique_lock lock(mutex);
    while (!stopping && !failure) {
      plan::PlanJob job;
      const plan::PlanJobs::Next next = jobs.next(job, [this](std::size_t item) { return admit(item); });
      if (next == plan::PlanJobs::Next::end) break;
      if (next == plan::PlanJobs::Next::wait) {
        if (!failure) room_changed.wait(lock);
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
  room_changed.notify_all();
  ready_changed.notify_all();
}

// Under the mutex. Memory is set aside, not touched.
bool Stream::State::admit(std::size_t item) noexcept {
  const std::uint64_t size = run.items()[item].size;
  if (in_flight != 0 && (size > budget || in_flight > budget - size)) return false;
  Status status = base::guarded([&] { return run.place(item, 1); });
  if (!status) {
    fail(std::move(status).error());
    return false;
  }
  in_flight += size;
  return true;
}

void Stream::State::announce(const plan::PlanJob& job) {
  for (std::size_t item = job.first; item < job.first + job.count; ++item) {
    if (announced[item] || run.slot(item).left.load() != 0) continue;
    ready.push_back(item);
    announced[item] = true;
  }
  ready_changed.notify_all();
}

void Stream::State::fail(Error error) noexcept {
  if (!failure) failure = std::move(error);
  room_changed.notify_all();
  ready_changed.notify_all();
}

Result<std::optional<StreamItem>> Stream::State::next() {
  std::unique_lock lock(mutex);
  const auto decided = [&] { return failure || !ready.empty() || working == 0; };
  while (!ready_changed.wait_for(lock, kBetweenReports, decided)) {
    lock.unlock();
    tell_progress();
    lock.lock();
  }
  if (failure) return *failure;
  if (ready.empty()) return std::optional<StreamItem>();
  const std::size_t item = ready.front();
  ready.pop_front();
  in_flight -= run.items()[item].size;
  room_changed.notify_all();
  lock.unlock();
  Result<StreamItem> taken = base::guarded([&]() -> Result<StreamItem> {
    return StreamItem{item, run.take_array(item)};
  });
  if (taken) tell_progress();
  lock.lock();
  // An item that was taken off the list and not handed out is lost: no later call may succeed.
  if (!taken) {
    fail(std::move(taken).error());
    return *failure;
  }
  if (failure) return *failure;
  return std::optional<StreamItem>(*std::move(taken));
}

// Without the mutex.
void Stream::State::tell_progress() noexcept {
  const ReadOptions& options = run.options();
  if (options.progress && !options.progress(run.done(), run.total())) cancel();
}

void Stream::State::cancel() noexcept {
  const std::lock_guard lock(mutex);
  fail(base::cancelled(run.done(), run.total()));
}

void Stream::Delete::operator()(State* state) const noexcept {
  if (::getpid() == state->process) delete state;
}

Stream::Stream(Owner state) noexcept : state_(std::move(state)) {}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;

Result<std::optional<StreamItem>> Stream::next() noexcept {
  return base::guarded([&]() -> Result<std::optional<StreamItem>> {
    if (!state_) return std::optional<StreamItem>();
    return state_->next();
  });
}

void Stream::cancel() noexcept {
  if (state_) state_->cancel();
}

Result<ReadReport> Stream::report() const noexcept {
  return base::guarded([&]() -> Result<ReadReport> {
    if (!state_) return ReadReport();
    return state_->run.report(state_->seconds());
  });
}

Result<Stream> ReadPlan::stream(const ReadOptions& options) const noexcept {
  return base::guarded([&]() -> Result<Stream> {
    Stream::Owner state(new Stream::State(state_, options));
    if (Status status = state->start(); !status) return std::move(status).error();
    return Stream(std::move(state));
  });
}

}  // namespace v0
}  // namespace safetensors
