// Lets Ctrl-C and other signals end long calls, and reports the progress of these calls.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <span>
#include <utility>

#include "support.h"

namespace safetensors::python {

// Lets signals end a long call that runs without the GIL, and reports its progress. progress: a callable or None. It is
// called up to 20 times per second with the number of bytes completed and the total. An exception that it raises ends
// the call.
class Watch {
 public:
  explicit Watch(nb::handle progress = nb::none()) : progress_(nb::borrow(progress)) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  [[nodiscard]] Callback<bool(std::uint64_t, std::uint64_t)> callback() {
    return [this](std::uint64_t done, std::uint64_t total) { return go_on(done, total); };
  }
  // For ParseOptions::cancelled. Returns true after a signal handler raised an exception.
  [[nodiscard]] Callback<bool()> cancelled() {
    return [this] { return !go_on(0, 1); };
  }
  // Returns whether this thread is inside of the watched call: in a signal handler or in the progress function.
  [[nodiscard]] bool asking() const noexcept { return ReentrancyGuard::of(this); }
  // Executes the plan without the GIL. Signals and the progress function are handled. If one of them or make() raises
  // an exception, reading stops, and the exception is raised again.
  //
  // make(arrays), if given: called once, with the GIL, while other threads already read. It must not look at the bytes:
  // they are undefined until this returns a result. On an error, the caller must drop all that make() made.
  [[nodiscard]] Result<ReadResult> execute(const ReadPlan& plan, ReadOptions options,
                                           const std::function<void(std::span<const Array>)>& make = nullptr);
  // Returns the exception that ended the call, once. Null if no exception ended the call. Call it in the thread that
  // made the call, after the call returned.
  [[nodiscard]] std::exception_ptr take() noexcept { return std::exchange(raised_, nullptr); }
  // Throws that exception, if there is one. Needs the GIL.
  void rethrow();

 private:
  bool go_on(std::uint64_t done, std::uint64_t total);
  // Calls the function with the GIL. Returns false if it raised an exception, which rethrow() then throws.
  template <class Function>
  bool ask(const Function& function);

  nb::object progress_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::exception_ptr raised_;
};

// Calls open(ParseOptions) without the GIL. Ctrl-C, or another signal whose handler raises an exception, ends it.
template <class Open>
[[nodiscard]] auto open_watched(const Open& open) {
  Watch watch;
  const ParseOptions options{.cancelled = watch.cancelled()};
  auto result = [&] {
    const WithoutGil released;
    return open(options);
  }();
  watch.rethrow();
  return result;
}

}  // namespace safetensors::python
