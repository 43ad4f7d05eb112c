// Executors of callers may break their promise: they return early, throw, call a task twice, or keep a task for later.
// So a task first enters a gate. The gate closes when the executor is back, and then waits for the tasks inside. The
// tasks share the ownership of the gate, because a task that is called later must still find it closed.
#include "plan/tasks.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "base/error.h"

namespace safetensors::plan {
namespace {

class Gate {
 public:
  Gate(const std::function<void()>& work, std::size_t max) noexcept : work_(work), max_(max) {}

  // One task. A thread that is inside already, such as one that a Source made wait in its pool, does not enter again:
  // it could wait for a lock of its own.
  void pass() noexcept {
    for (const Visit* visit = innermost; visit != nullptr; visit = visit->outer)
      if (visit->gate == this) return;
    {
      const std::lock_guard lock(mutex_);
      if (closed_ || inside_ == max_) return;
      ++inside_;
      ++passed_;
    }
    const Visit here{this, innermost};
    innermost = &here;
    work_();
    innermost = here.outer;
    const std::lock_guard lock(mutex_);
    if (--inside_ == 0) empty_.notify_all();
  }
  // Returns the number of tasks that ran the work.
  [[nodiscard]] std::size_t close() noexcept {
    std::unique_lock lock(mutex_);
    closed_ = true;
    empty_.wait(lock, [this] { return inside_ == 0; });
    return passed_;
  }

 private:
  // The gates that a thread is inside of.
  struct Visit {
    const Gate* gate;
    const Visit* outer;
  };
  static inline thread_local const Visit* innermost = nullptr;

  const std::function<void()>& work_;  // valid until close() returns
  const std::size_t max_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable empty_;
  std::size_t inside_ = 0;
  std::size_t passed_ = 0;
  bool closed_ = false;
};

}  // namespace

Status run_tasks(const Executor& executor, std::size_t count, const std::function<void()>& work) noexcept {
  return base::guarded([&]() -> Status {
    const auto gate = std::make_shared<Gate>(work, count);
    const ExecutorTask task = [gate](std::size_t) { gate->pass(); };
    Status status = base::called([&]() -> Status { return executor(count, task), Status(); }, Errc::invalid_argument,
                                 "the executor");
    if (gate->close() == 0 && status)
      return base::make_error(Errc::invalid_argument,
                              "the executor ran none of " + std::to_string(count) + " tasks, expected all of them");
    return status;
  });
}

}  // namespace safetensors::plan
