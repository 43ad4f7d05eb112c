// Turns the requests and options of a load into a ReadPlan and ReadOptions, makes arrays of its results, and lets
// signals end long calls.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "framework.h"
#include "reader.h"
#include "support.h"

namespace safetensors::python {

// A plan, and for each item the caller's own array that it is read into, or null.
struct Requests {
  ReadPlan plan;
  std::vector<nb::object> targets;
};

// Returns an argument that is a number of bytes or of threads. Raises TypeError for an object that is not an integer,
// and SafetensorError, which names the argument, for an integer outside of 0 to 2^64-1.
[[nodiscard]] std::uint64_t to_count(nb::handle object, const char* argument);

// name: a name of the format, such as "F32", or None. Raises SafetensorError for any other text.
[[nodiscard]] std::optional<Dtype> to_dtype(nb::handle name);

// requests: a sequence of (name, index, dtype, target). index: the index of a slice, or None for the whole tensor.
// dtype: the format's name of the dtype to cast to, or None. target: (address, size in bytes, strides in bytes or None,
// object), followed by the ordinal of a CUDA device if the memory is on one. None allocates new memory. Raises
// MissingTensorError for an unknown name, and SafetensorError.
[[nodiscard]] Requests make_requests(const Reader& reader, nb::handle requests);

struct LoadOptions {
  ReadOptions read;
  nb::object progress;      // a callable or None
  bool to_devices = false;  // all targets are on CUDA devices
};
// options: threads, memory_limit (0 for automatic); cache ("auto", "keep" or "fill"); progress; and,
// if all targets are on CUDA devices, device_stream, a CUstream: copies begin after the work that it already has.
// Raises SafetensorError, TypeError.
[[nodiscard]] LoadOptions make_load_options(const nb::kwargs& options);

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

// Executes the plan without the GIL and calls add(index, object) for each item. Needs the GIL.
//
// The object is the item's target if `targets` has one, else an array that the Maker makes. targets: one per item, may
// be null; or empty. Most arrays are made while other threads read the bytes, so add() must show them to nobody. For
// an item whose bytes the Maker reads, add() is first called with None, and again with the array when the bytes are
// there. So the first calls come in the order of the plan.
//
// Returns the error of ReadPlan::execute(). Raises the exceptions of the Maker, of signal handlers and of progress().
// In both cases the caller must drop the objects.
[[nodiscard]] Status make_results(const ReadPlan& plan, const ReadOptions& options, nb::handle progress, Maker& maker,
                                  std::span<const nb::object> targets,
                                  const std::function<void(std::size_t index, nb::handle object)>& add);

// The results of the requests, in their order.
[[nodiscard]] nb::list load_tensors(Reader& reader, nb::handle requests, const LoadOptions& options);
// Returns an iterator of (index, array).
[[nodiscard]] nb::object start_stream(Reader& reader, nb::handle requests, const LoadOptions& options);

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
