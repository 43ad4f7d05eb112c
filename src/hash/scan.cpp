// A ring of blocks. SHA-256 of one range is sequential, so each consumer is a lane that takes blocks in order, and
// threads run different lanes at the same time. A thread that finds no lane ready reads ahead, so reading and hashing
// overlap even with one lane.
#include "hash/scan.h"

#include <algorithm>

#include "base/error.h"
#include "os/regular_file.h"

namespace safetensors::hash {

Status Scan::run_all(unsigned threads) {
  blocks_ = size_ / block_bytes_ + (size_ % block_bytes_ != 0 ? 1 : 0);
  const std::size_t most = std::max<std::size_t>(4, std::min<std::size_t>(2 * threads + 4, kMaxBytes / block_bytes_));
  slots_.resize(static_cast<std::size_t>(std::min<std::uint64_t>(most, blocks_)));
  if (Status status = os::run_parallel(*this, threads, threads); !status) return status;
  return status_;
}

Status Scan::run(std::size_t) noexcept {
  std::unique_lock lock(mutex_);
  while (status_ && finished_ < blocks_) {
    if (feed_lane(lock) || feed_unordered(lock) || read_block(lock)) continue;
    changed_.wait(lock);
  }
  changed_.notify_all();
  return {};
}

bool Scan::feed_lane(std::unique_lock<std::mutex>& lock) {
  for (Lane& lane : ordered_) {
    if (lane.busy || lane.next == blocks_) continue;
    Slot& slot = slots_[static_cast<std::size_t>(lane.next % slots_.size())];
    if (slot.state != State::loaded || slot.block != lane.next) continue;
    lane.busy = true;
    lock.unlock();
    const Status status = lane.consumer(offset_of(slot), bytes_of(slot));
    lock.lock();
    lane.busy = false;
    ++lane.next;
    note(status);
    leave(slot);
    return true;
  }
  return false;
}

bool Scan::feed_unordered(std::unique_lock<std::mutex>& lock) {
  if (!unordered_) return false;
  for (Slot& slot : slots_) {
    if (slot.state != State::loaded || slot.unordered_taken) continue;
    slot.unordered_taken = true;
    lock.unlock();
    const Status status = unordered_(offset_of(slot), bytes_of(slot));
    lock.lock();
    note(status);
    leave(slot);
    return true;
  }
  return false;
}

bool Scan::read_block(std::unique_lock<std::mutex>& lock) {
  if (next_read_ == blocks_) return false;
  Slot& slot = slots_[static_cast<std::size_t>(next_read_ % slots_.size())];
  if (slot.state != State::free) return false;
  slot.state = State::reading;
  slot.block = next_read_++;
  lock.unlock();
  Status status = base::guarded([&]() -> Status {
    slot.bytes.resize(block_bytes_);
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(block_bytes_, size_ - offset_of(slot)));
    if (Status read = os::read_exactly(source_, offset_of(slot), std::span(slot.bytes).first(count)); !read)
      return read;
    return meter_.add(count);
  });
  lock.lock();
  note(status);
  slot.unordered_taken = false;
  slot.pending = ordered_.size() + (unordered_ ? 1 : 0);
  slot.state = State::loaded;
  if (slot.pending == 0) slot.pending = 1, leave(slot);
  changed_.notify_all();
  return true;
}

void Scan::leave(Slot& slot) {
  if (--slot.pending == 0) {
    slot.state = State::free;
    ++finished_;
  }
  changed_.notify_all();
}

void Scan::note(const Status& status) {
  if (!status && status_) status_ = status;
}

std::span<const std::byte> Scan::bytes_of(const Slot& slot) const {
  const std::uint64_t count = std::min<std::uint64_t>(block_bytes_, size_ - offset_of(slot));
  return std::span(slot.bytes).first(static_cast<std::size_t>(count));
}

}  // namespace safetensors::hash
