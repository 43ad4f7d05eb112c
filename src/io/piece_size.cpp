// A search among few sizes. A trial of the next size costs one write. If it was slower, the next trial waits four times
// as long, so in fragmented memory all trials together cost little. One slow write of a larger size is enough to go
// back to the smaller one: the next trial comes soon if that was an accident.
#include "io/piece_size.h"

#include <algorithm>

namespace safetensors::io {
namespace {

constexpr double kMuchSlower = 1.5;  // than the time of the smaller size

}  // namespace

std::size_t PieceSize::next() const noexcept {
  const std::lock_guard lock(mutex_);
  const bool trial = remaining_ == 0 && level_ + 1 < kSizes.size();
  return kSizes[trial ? level_ + 1 : level_];
}

void PieceSize::wait_longer() noexcept {
  wait_ = std::min(4 * wait_, kLongestWait);
  remaining_ = wait_;
}

void PieceSize::record(std::size_t size, Time time) noexcept {
  const double per_byte = static_cast<double>(time.count()) / static_cast<double>(size);
  const std::lock_guard lock(mutex_);
  if (size == kSizes[level_]) return record_used(per_byte);
  if (level_ + 1 == kSizes.size() || size != kSizes[level_ + 1] || remaining_ != 0) return;
  if (per_byte > used_) return wait_longer();
  ++level_;
  small_ = used_;
  used_ = per_byte;
  remaining_ = wait_;
}

void PieceSize::record_used(double per_byte) noexcept {
  used_ = used_ == 0 ? per_byte : (used_ + per_byte) / 2;
  if (level_ == 0) {
    if (remaining_ != 0) --remaining_;
  } else if (per_byte > kMuchSlower * small_) {
    --level_;
    used_ = small_;
    wait_longer();
  } else if (remaining_ != 0 && --remaining_ == 0) {
    wait_ = std::max(wait_ / 4, kFirstWait);  // the larger size was good for a while
  }
}

}  // namespace safetensors::io
