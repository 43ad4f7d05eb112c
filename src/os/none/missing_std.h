// The names of std that a C++ library lacks if it was built without threads, as the one of zig for WASI was. The build
// includes this file before every source. There is one thread, so a lock has nothing to do.
#pragma once

#ifdef __cplusplus
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <system_error>

namespace std {

class mutex {
 public:
  void lock() noexcept {}
  bool try_lock() noexcept { return true; }
  void unlock() noexcept {}
};

class condition_variable {
 public:
  void notify_one() noexcept {}
  void notify_all() noexcept {}
  // No other thread can end a wait: the condition must be true already.
  template <class Lock>
  void wait(Lock&) {
    abort();
  }
  template <class Lock, class Condition>
  void wait(Lock&, Condition condition) {
    if (!condition()) abort();
  }
  template <class Lock, class Duration, class Condition>
  bool wait_for(Lock&, const Duration&, Condition condition) {
    return condition();
  }
};

class thread {
 public:
  class id {
   public:
    friend bool operator==(id a, id b) noexcept { return a.number_ == b.number_; }

   private:
    friend id get_current_id() noexcept;
    int number_ = 0;
  };
  thread() noexcept = default;
  // ThreadGroup never starts one.
  template <class Function, class... Arguments>
  explicit thread(Function&&, Arguments&&...) {
    abort();
  }
  void join() noexcept {}
  [[nodiscard]] bool joinable() const noexcept { return false; }
};

inline thread::id get_current_id() noexcept {
  thread::id id;
  id.number_ = 1;
  return id;
}

namespace this_thread {
inline thread::id get_id() noexcept {
  return get_current_id();
}
inline void yield() noexcept {}
template <class Duration>
void sleep_for(const Duration&) noexcept {}
}  // namespace this_thread

}  // namespace std
#endif
