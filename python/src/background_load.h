// Keeps all items of a stream: the data of a PrefetchLoader. Never takes the GIL.
#pragma once

#include <safetensors/safetensors.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
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

  // Waits until the item is complete, for at most `limit`, and returns whether it is. Error: the reason why it will
  // never be complete; cancelled after close().
  [[nodiscard]] Result<bool> wait(std::size_t item, std::chrono::milliseconds limit);
  // The same for the item at `position` in the order of completion. If it is complete, stores its index in *item and
  // advances position. After the last item, *item is the number of items.
  [[nodiscard]] Result<bool> wait_next(std::size_t& position, std::size_t* item, std::chrono::milliseconds limit);

  // Returns the array of a complete item. Call it before drop() and close().
  [[nodiscard]] Array array(std::size_t item);
  // Releases the memory of a complete item. The item stays complete.
  void drop(std::size_t item);

  // Stops reading, waits for the threads and releases all memory. Idempotent, from any thread.
  void close() noexcept;

 private:
  BackgroundLoad(Stream stream, std::size_t items) : count_(items), stream_(std::move(stream)), arrays_(items) {
    order_.reserve(items);
  }
  ~BackgroundLoad() { close(); }
  template <class Done>
  Result<bool> wait_until(std::chrono::milliseconds limit, Done done);
  void store_next();

  const std::uint64_t process_ = os::process_id();
  const std::size_t count_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool waiting_ = false;                      // a thread waits for the stream, without the mutex
  std::optional<Stream> stream_;              // empty after the last item, and after close()
  std::vector<std::optional<Array>> arrays_;  // of complete items; empty after close()
  std::vector<std::size_t> order_;            // complete items, in the order of completion
  std::optional<Error> failure_;
};

}  // namespace safetensors::python
