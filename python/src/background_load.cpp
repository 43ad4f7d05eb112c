// Stores the arrays of a safetensors::Stream by index, so that an item can be asked for by name, in any order and
// again. The threads that wait for items take them from the stream: one thread at a time waits for the stream and
// stores the next item, even if another thread needs it. The others wait for this thread. The memory budget of the
// stream covers the whole plan, so reading goes on while nobody waits.
#include "background_load.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace safetensors::python {

void BackgroundLoad::Delete::operator()(BackgroundLoad* load) const noexcept {
  if (!load->forked()) delete load;
}

Result<BackgroundLoad::Owner> BackgroundLoad::start(const ReadPlan& plan, unsigned threads) {
  // Twice the bytes of the plan: a stream uses half of its budget for items that are being read.
  const std::uint64_t budget = std::min(plan.nbytes(), std::numeric_limits<std::uint64_t>::max() / 2) * 2;
  Result<Stream> stream = plan.stream({.threads = threads, .memory_limit = budget});
  if (!stream) return std::move(stream).error();
  return Owner(new BackgroundLoad(*std::move(stream), plan.size()));
}

template <class Done>
Result<bool> BackgroundLoad::wait_until(std::chrono::milliseconds limit, Done done) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::optional<Stream> ended;  // destroyed after the mutex is released: it joins threads and closes files
  std::unique_lock lock(mutex_);
  while (!done()) {
    if (failure_) return *failure_;
    const auto remaining = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (remaining.count() <= 0) return false;
    if (waiting_) {
      changed_.wait_until(lock, end);
      continue;
    }
    waiting_ = true;
    lock.unlock();
    const bool ready = stream_->wait_for(remaining);
    lock.lock();
    waiting_ = false;
    if (ready) store_next();
    if (order_.size() == count_) ended.swap(stream_);
    changed_.notify_all();  // also if nothing came: another thread may go on longer than this one
  }
  return true;
}

// Called under the mutex when next() does not wait.
void BackgroundLoad::store_next() {
  Result<std::optional<StreamItem>> next = stream_->next();
  if (!next) {
    failure_ = std::move(next).error();
  } else if (*next) {
    arrays_[(*next)->index] = std::move((*next)->array);
    order_.push_back((*next)->index);
  }
}

Result<bool> BackgroundLoad::wait(std::size_t item, std::chrono::milliseconds limit) {
  return wait_until(limit, [&] { return !arrays_.empty() && arrays_[item]; });
}

Result<bool> BackgroundLoad::wait_next(std::size_t& position, std::size_t* item, std::chrono::milliseconds limit) {
  return wait_until(limit, [&] {
    if (position != count_ && (arrays_.empty() || position >= order_.size())) return false;
    *item = position == count_ ? count_ : order_[position++];
    return true;
  });
}

Array BackgroundLoad::array(std::size_t item) {
  const std::lock_guard lock(mutex_);
  return *arrays_[item];
}

void BackgroundLoad::drop(std::size_t item) {
  Array dropped;  // destroyed after the mutex is released
  const std::lock_guard lock(mutex_);
  if (!arrays_.empty()) std::swap(*arrays_[item], dropped);
}

void BackgroundLoad::close() noexcept {
  std::optional<Stream> ended;  // these are destroyed after the mutex is released
  std::vector<std::optional<Array>> arrays;
  std::unique_lock lock(mutex_);
  if (!failure_) failure_ = Error{.code = Errc::cancelled};
  arrays.swap(arrays_);
  if (stream_) stream_->cancel();
  changed_.notify_all();
  changed_.wait(lock, [&] { return !waiting_; });
  ended.swap(stream_);
}

}  // namespace safetensors::python
