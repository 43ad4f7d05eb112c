// Whether a call shall end early: the caller's function decides, every thread that works for the call learns it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>

namespace safetensors::base {

// Calls the caller's function on the thread that made the call only, so that the function needs no locks and may look
// at signals. After its first true it is not called again, and all threads see the answer.
class Cancellation {
 public:
  // cancelled: may be empty; must outlive this.
  explicit Cancellation(const std::function<bool()>& cancelled) noexcept
      : cancelled_(cancelled ? &cancelled : nullptr), caller_(std::this_thread::get_id()) {}
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  // Asks. Cheap next to a few microseconds of work.
  [[nodiscard]] bool requested() noexcept {
    if (cancelled_ == nullptr) return false;
    if (stopped()) return true;
    if (std::this_thread::get_id() != caller_ || !(*cancelled_)()) return false;
    stopped_.store(true, std::memory_order_relaxed);
    return true;
  }
  // The last answer, without asking again.
  [[nodiscard]] bool stopped() const noexcept { return stopped_.load(std::memory_order_relaxed); }
  // Whether there is anybody to ask.
  [[nodiscard]] bool possible() const noexcept { return cancelled_ != nullptr; }

 private:
  const std::function<bool()>* cancelled_;
  const std::thread::id caller_;
  std::atomic<bool> stopped_{false};
};

// std::sort that can be cancelled; false: it was, and the elements are in no particular order. The comparison throws to
// leave std::sort: there is no other way out, and an inconsistent answer would be undefined behaviour.
template <class Iterator, class Less>
[[nodiscard]] bool sort(Iterator first, Iterator last, const Less& less, Cancellation* cancellation) {
  constexpr std::size_t kComparisonsPerLook = 4096;  // comparisons
  struct Cancelled {};
  std::size_t left = kComparisonsPerLook;
  try {
    std::sort(first, last, [&](const auto& a, const auto& b) {
      if (--left == 0) {
        left = kComparisonsPerLook;
        if (cancellation != nullptr && cancellation->requested()) throw Cancelled();
      }
      return less(a, b);
    });
    return true;
  } catch (const Cancelled&) {
    return false;
  }
}

}  // namespace safetensors::base
