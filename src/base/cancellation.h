// Early end of a call: the caller's function decides, and every thread that works for the call sees the decision.
#pragma once

#include <safetensors/callback.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>

#include "base/exceptions.h"

namespace safetensors::base {

// Calls the caller's function only on the thread that constructs this object. So the function needs no locks and may
// check for signals. After the function returns true once, it is not called again, and all threads see the answer.
// Thread-safe.
class Cancellation {
 public:
  // Nothing cancels the call.
  Cancellation() noexcept : Cancellation(static_cast<const Callback<bool()>*>(nullptr)) {}
  // cancelled: may be empty. It must outlive this.
  explicit Cancellation(const Callback<bool()>& cancelled) noexcept : Cancellation(cancelled ? &cancelled : nullptr) {}
  explicit Cancellation(Callback<bool()>&& cancelled) = delete;
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  // Calls the caller's function if this is the caller's thread, and returns whether the call is cancelled. The cost is
  // small compared with a few microseconds of work.
  [[nodiscard]] bool requested() noexcept {
    if (cancelled_ == nullptr) return false;
    if (stopped()) return true;
    if (std::this_thread::get_id() != caller_ || !(*cancelled_)()) return false;
    stopped_.store(true, std::memory_order_relaxed);
    return true;
  }
  // Returns the last answer of requested() without a call of the caller's function.
  [[nodiscard]] bool stopped() const noexcept { return stopped_.load(std::memory_order_relaxed); }
  // Returns false if the caller gave no function: then nothing can cancel the call.
  [[nodiscard]] bool possible() const noexcept { return cancelled_ != nullptr; }

 private:
  explicit Cancellation(const Callback<bool()>* cancelled) noexcept
      : cancelled_(cancelled), caller_(std::this_thread::get_id()) {}

  const Callback<bool()>* cancelled_;
  const std::thread::id caller_;
  std::atomic<bool> stopped_{false};
};

// std::sort with cancellation (may be null). Returns false if the call was cancelled: the elements are then in no
// particular order. The comparison throws to leave std::sort. A comparison that returned a constant from then on would
// be inconsistent, and std::sort has undefined behaviour for such comparisons. Without exceptions, nothing cancels it.
template <class Iterator, class Less>
[[nodiscard]] bool sort(Iterator first, Iterator last, const Less& less, Cancellation* cancellation) {
  constexpr std::size_t kComparisonsPerCheck = 4096;
  struct Cancelled {};
  std::size_t remaining = kComparisonsPerCheck;  // comparisons until the next check
  const auto compare = [&](const auto& a, const auto& b) {
    if (kExceptions && --remaining == 0) {
      remaining = kComparisonsPerCheck;
      if (cancellation != nullptr && cancellation->requested()) raise(Cancelled());
    }
    return less(a, b);
  };
  const auto sort_all = [&] {
    std::sort(first, last, compare);
    return true;
  };
  return caught<Cancelled>(sort_all, [](const Cancelled&) { return false; });
}

}  // namespace safetensors::base
