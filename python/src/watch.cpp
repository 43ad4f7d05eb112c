// Takes the GIL at most 20 times per second, to run signal handlers and the progress function.
#include "watch.h"

namespace safetensors::python {
namespace {

constexpr auto kWatchInterval = std::chrono::milliseconds(50);

}  // namespace

bool Watch::go_on(std::uint64_t done, std::uint64_t total) {
  const auto now = std::chrono::steady_clock::now();
  const bool end = done == total && !progress_.is_none();
  if (!end && now - last_ < kWatchInterval) return true;
  last_ = now;
  return ask([&] {
    check_signals();
    if (!progress_.is_none()) (void)progress_(done, total);
  });
}

template <class Function>
bool Watch::ask(const Function& function) {
  const WithGil acquired;
  const ReentrancyGuard guard(this);
  try {
    never_unwound(function);
    return true;
  } catch (...) {
    raised_ = std::current_exception();
    return false;
  }
}

Result<ReadResult> Watch::execute(const ReadPlan& plan, ReadOptions options,
                                  const std::function<void(std::span<const Array>)>& make) {
  options.progress = callback();
  if (make) options.on_reserved = [&](std::span<const Array> arrays) { return ask([&] { make(arrays); }); };
  Result<ReadResult> result = [&] {
    const WithoutGil released;
    return plan.execute(options);
  }();
  rethrow();
  return result;
}

void Watch::rethrow() {
  if (std::exception_ptr raised = take()) std::rethrow_exception(raised);
}

}  // namespace safetensors::python
