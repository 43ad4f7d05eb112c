// Stores the arrays of a safetensors::Stream until they are taken, so that an item can be asked for by name, in any
// order. The threads that wait for items take them from the stream: one thread at a time waits for the stream and
// stores the next item, even if another thread needs it. The others wait for this thread. While nobody waits, reading
// goes on up to the memory budget of the stream. Items that were complete before the one that a thread waits for are
// held beyond it.
#include "background_load.h"

#include <utility>

namespace safetensors::python {

void BackgroundLoad::Delete::operator()(BackgroundLoad* load) const noexcept {
  if (!load->forked()) delete load;
}

Result<BackgroundLoad::Owner> BackgroundLoad::start(const ReadPlan& plan, unsigned threads) {
  Result<Stream> stream = plan.stream({.threads = threads});
  if (!stream) return std::move(stream).error();
  return Owner(new BackgroundLoad(*std::move(stream), plan.size()));
}

template <class Done>
Result<bool> BackgroundLoad::wait_until(std::chrono::milliseconds limit, Done done) {
  const auto end = std::chrono::steady_clock::now() + limit;
  std::optional<Stream> ended;  // destroyed after the mutex is released: it joins threads and closes files
  std::unique_lock lock(mutex_);
  while (true) {
    if (closed_ && taken_count_ != taken_.size()) return *failure_;
    Result<bool> found = done();
    if (!found || *found) return found;
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
    if (remaining_ == 0) ended.swap(stream_);
    changed_.notify_all();  // also if nothing came: another thread may go on longer than this one
  }
}

// Called under the mutex when next() does not wait.
void BackgroundLoad::store_next() {
  Result<std::optional<StreamItem>> next = stream_->next();
  if (!next) {
    failure_ = std::move(next).error();
  } else if (*next) {
    order_.push_back((*next)->index);
    complete_.emplace((*next)->index, std::move((*next)->array));
    --remaining_;
  }
}

Result<bool> BackgroundLoad::take(std::size_t item, Array* array, std::chrono::milliseconds limit) {
  return wait_until(limit, [&]() -> Result<bool> {
    if (taken_[item])
      return Error{.code = Errc::invalid_argument,
                   .message = "tensor already delivered (prefetch hands each tensor out once, via take or iteration)"};
    return hand_out(item, array);
  });
}

Result<bool> BackgroundLoad::take_next(std::size_t* item, Array* array, std::chrono::milliseconds limit) {
  return wait_until(limit, [&]() -> Result<bool> {
    for (; !order_.empty(); order_.pop_front()) {
      if (hand_out(*item = order_.front(), array)) return true;  // the next call removes it from the order
    }
    *item = taken_.size();
    return taken_count_ == taken_.size();
  });
}

bool BackgroundLoad::hand_out(std::size_t item, Array* array) {
  const auto found = complete_.extract(item);
  if (found.empty()) return false;
  taken_[item] = true;
  ++taken_count_;
  *array = std::move(found.mapped());
  return true;
}

void BackgroundLoad::give_back(std::size_t item, Array array) {
  const std::lock_guard lock(mutex_);
  taken_[item] = false;
  --taken_count_;
  if (!closed_ && complete_.emplace(item, std::move(array)).second) order_.push_front(item);
  changed_.notify_all();
}

void BackgroundLoad::close() noexcept {
  std::optional<Stream> ended;  // these are destroyed after the mutex is released
  std::map<std::size_t, Array> complete;
  std::unique_lock lock(mutex_);
  if (!failure_) failure_ = Error{.code = Errc::cancelled};
  closed_ = true;
  complete.swap(complete_);
  if (stream_) stream_->cancel();
  changed_.notify_all();
  changed_.wait(lock, [&] { return !waiting_; });
  ended.swap(stream_);
}

}  // namespace safetensors::python
