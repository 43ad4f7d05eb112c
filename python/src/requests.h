// What is to be read, as Python says it, and how.
#pragma once

#include <chrono>
#include <exception>
#include <utility>
#include <vector>

#include "support.h"

namespace safetensors::python {

// A plan, and for each of its items the caller's own object that it is read into, or null.
struct Requests {
  ReadPlan plan;
  std::vector<nb::object> targets;
};

// The tensor of that name. Raises KeyError, TypeError for what is no str.
[[nodiscard]] Tensor find_tensor(const Checkpoint& checkpoint, nb::handle name);

// requests: a sequence of (name, index, dtype, target). index: what stands between brackets, or None for all of it.
// dtype: the format's name of what to cast to, or None. target: (address, size in bytes, strides in bytes or None,
// object), with the ordinal of a CUDA device behind if it is memory of one; or None for memory of its own. Raises
// KeyError for a name that is not there, and SafetensorError.
[[nodiscard]] Requests make_requests(const Checkpoint& checkpoint, nb::handle requests);

// threads, memory_limit: 0 for automatic; cache: "keep", "fill", "drop" or "bypass". Raises SafetensorError, TypeError.
[[nodiscard]] ReadOptions make_read_options(nb::handle threads, nb::handle memory_limit, nb::handle cache);

// Lets a long call without the GIL be ended by signals, and tells a callable of its progress (or None): now and then,
// with bytes done and in all; what it raises ends the call.
class Watch {
 public:
  explicit Watch(nb::handle progress = nb::none()) : progress_(nb::borrow(progress)) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  [[nodiscard]] std::function<bool(std::uint64_t, std::uint64_t)> callback() {
    return [this](std::uint64_t done, std::uint64_t total) { return go_on(done, total); };
  }
  // ParseOptions::cancelled: true once a signal's handler has raised.
  [[nodiscard]] std::function<bool()> cancelled() {
    return [this] { return !go_on(0, 1); };
  }
  // Whether this thread is in the guard of the call that it watches: in a signal's handler, or in progress.
  [[nodiscard]] bool asking() const noexcept { return ReentrancyGuard::of(this); }
  // What was raised meanwhile, once; null for nothing. In the thread that called, after it did.
  [[nodiscard]] std::exception_ptr take() noexcept { return std::exchange(raised_, nullptr); }
  // Throws it. With the GIL.
  void rethrow();

 private:
  bool go_on(std::uint64_t done, std::uint64_t total);

  nb::object progress_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::exception_ptr raised_;
};

// open(ParseOptions), which opens something, without the GIL. Ctrl-C, or another signal whose handler raises, ends it.
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
