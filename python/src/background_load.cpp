// One thread takes the items of a safetensors::Stream and stores their arrays by index, so that an item can be asked
// for by name, in any order and again. The memory budget of the stream covers the whole plan: reading never waits until
// somebody takes a tensor.
#include "background_load.h"

#include <algorithm>
#include <limits>
#include <new>
#include <system_error>
#include <utility>

namespace safetensors::python {

void BackgroundLoad::Delete::operator()(BackgroundLoad* load) const noexcept {
  if (!load->forked()) delete load;
}

Result<BackgroundLoad::Owner> BackgroundLoad::start(const ReadPlan& plan, unsigned threads) {
  // Twice the bytes of the plan: a stream uses half of its budget for items that are being read.
  const std::uint64_t budget = std::min(plan.nbytes(), std::numeric_limits<std::uint64_t>::max() / 2) * 2;
  Result<Stream> stream = plan.stream({.threads = threads, .memory_budget = budget});
  if (!stream) return std::move(stream).error();
  try {
    return Owner(new BackgroundLoad(*std::move(stream), plan.size()));
  } catch (const std::system_error& error) {
    return Error{.code = Errc::out_of_memory,
                 .os_error = error.code().value(),
                 .message = std::string("cannot start a thread to read: ") + error.what()};
  }
}

BackgroundLoad::BackgroundLoad(Stream stream, std::size_t items)
    : stream_(std::move(stream)), arrays_(items), complete_(items) {
  order_.reserve(items);
  thread_ = std::thread([this] { run(); });
}

void BackgroundLoad::run() noexcept {
  for (;;) {
    Result<std::optional<StreamItem>> next = stream_->next();
    const std::lock_guard lock(mutex_);
    if (!next && next.error().code != Errc::cancelled) failure_ = next.error();
    if (!next || !*next || closed_) break;
    const std::size_t item = (*next)->index;
    arrays_[item] = std::move((*next)->array);
    complete_[item] = true;
    order_.push_back(item);
    changed_.notify_all();
  }
  std::optional<Stream> ended;  // destroyed after the lock is released: it joins threads and closes files
  const std::lock_guard lock(mutex_);
  ended.swap(stream_);
  changed_.notify_all();
}

BackgroundLoad::State BackgroundLoad::state_of(std::size_t item) const {
  if (!closed_ && complete_[item]) return State::ready;
  return failure_ ? State::failed : closed_ ? State::closed : State::waiting;
}

BackgroundLoad::State BackgroundLoad::state_at(std::size_t position) const {
  if (position == complete_.size()) return State::end;
  if (!closed_ && position < order_.size()) return State::ready;
  return failure_ ? State::failed : closed_ ? State::closed : State::waiting;
}

template <class Look>
BackgroundLoad::State BackgroundLoad::wait_until(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds limit,
                                                 Look look) {
  State state = look();
  if (state != State::waiting || limit.count() == 0) return state;
  changed_.wait_for(lock, limit, [&] { return (state = look()) != State::waiting; });
  return state;
}

BackgroundLoad::State BackgroundLoad::wait(std::size_t item, std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return wait_until(lock, limit, [&] { return state_of(item); });
}

BackgroundLoad::State BackgroundLoad::wait_next(std::size_t& position, std::size_t* item,
                                                std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  const State state = wait_until(lock, limit, [&] { return state_at(position); });
  if (state == State::ready) *item = order_[position++];
  return state;
}

std::optional<Array> BackgroundLoad::array(std::size_t item) {
  const std::lock_guard lock(mutex_);
  return closed_ ? std::nullopt : arrays_[item];
}

void BackgroundLoad::drop(std::size_t item) {
  std::optional<Array> dropped;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  if (!closed_) dropped.swap(arrays_[item]);
}

Error BackgroundLoad::error() {
  const std::lock_guard lock(mutex_);
  return failure_.value_or(Error{});
}

void BackgroundLoad::close() noexcept {
  std::thread thread;
  std::vector<std::optional<Array>> arrays;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    if (stream_) stream_->cancel();
    thread.swap(thread_);
    changed_.notify_all();
  }
  if (thread.joinable()) thread.join();
  const std::lock_guard lock(mutex_);
  arrays.swap(arrays_);
}

}  // namespace safetensors::python
