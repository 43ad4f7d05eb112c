// Keeps the complete items of a stream until they are taken: the data of a PrefetchLoader. Never takes the GIL.
#pragma once

#include <safetensors/safetensors.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "os/process.h"

namespace safetensors::python {

class BackgroundLoad {
 public:
  // Leaks the object in a forked child: a thread of the parent may have held its mutex.
  struct Delete {
    void operator()(BackgroundLoad* load) const noexcept;
  };
  using Owner = std::unique_ptr<BackgroundLoad, Delete>;

  // Starts to read every item of the plan. threads: reader threads, 0 chooses. Error: out_of_memory.
  [[nodiscard]] static Result<Owner> start(const ReadPlan& plan, unsigned threads);

  BackgroundLoad(const BackgroundLoad&) = delete;
  BackgroundLoad& operator=(const BackgroundLoad&) = delete;

  // Returns whether this process is a forked child. Then no other function may be called.
  [[nodiscard]] bool forked() const noexcept { return os::process_id() != process_; }

  // Waits until the item is complete, for at most `limit`. If it is, stores its array in *array and returns true.
  // Errors: invalid_argument (the item was taken before); the reason why it will never be complete; cancelled after
  // close().
  [[nodiscard]] Result<bool> take(std::size_t item, Array* array, std::chrono::milliseconds limit);
  // The same for the first item to be complete that was not taken. Stores its index in *item. If all items were taken,
  // *item is the number of items.
  [[nodiscard]] Result<bool> take_next(std::size_t* item, Array* array, std::chrono::milliseconds limit);
  // Gives back an item that was taken, so that it can be taken again. Does nothing after close().
  void give_back(std::size_t item, Array array);

  // Stops reading, waits for the threads and releases all memory. Idempotent, from any thread.
  void close() noexcept;

 private:
  BackgroundLoad(Stream stream, std::size_t items) : stream_(std::move(stream)), remaining_(items), taken_(items) {}
  ~BackgroundLoad() { close(); }
  template <class Done>
  Result<bool> wait_until(std::chrono::milliseconds limit, Done done);
  void store_next();
  // Returns false if the item is not complete, or was taken.
  bool hand_out(std::size_t item, Array* array);

  const std::uint64_t process_ = os::process_id();
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool waiting_ = false;                   // a thread waits for the stream, without the mutex
  std::optional<Stream> stream_;           // empty after the last item, and after close()
  std::size_t remaining_;                  // number of items that are not complete
  std::map<std::size_t, Array> complete_;  // not taken, by item
  std::deque<std::size_t> order_;          // items in the order of completion; also some that were taken
  std::vector<bool> taken_;
  std::size_t taken_count_ = 0;
  std::optional<Error> failure_;
  bool closed_ = false;
};

}  // namespace safetensors::python
