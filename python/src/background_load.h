// Reads all items of a plan in the background and keeps them: the data of a PrefetchLoader. Never takes the GIL.
#pragma once

#include <safetensors/safetensors.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace safetensors::python {

class BackgroundLoad {
 public:
  // Leaks the object in a forked child: its threads exist in the parent only, and nobody could join them.
  struct Delete {
    void operator()(BackgroundLoad* load) const noexcept;
  };
  using Owner = std::unique_ptr<BackgroundLoad, Delete>;

  // Starts to read every item of the plan. threads: reader threads, 0 chooses. Error: out_of_memory.
  [[nodiscard]] static Result<Owner> start(const ReadPlan& plan, unsigned threads);

  BackgroundLoad(const BackgroundLoad&) = delete;
  BackgroundLoad& operator=(const BackgroundLoad&) = delete;

  // Whether this process is a forked child. Then no other function may be called.
  [[nodiscard]] bool forked() const noexcept { return ::getpid() != process_; }

  // The state of an item, or of an iterator. end: the iterator is past the last item.
  enum class State : std::uint8_t { waiting, ready, failed, closed, end };
  // Waits until the item is no longer `waiting`, for at most `limit`, and returns its state.
  State wait(std::size_t item, std::chrono::milliseconds limit);
  // The same for the item that is complete at `position` in the order of completion. If it is ready, stores its index
  // in *item and advances position.
  State wait_next(std::size_t& position, std::size_t* item, std::chrono::milliseconds limit);

  // nullopt after drop() or close().
  [[nodiscard]] std::optional<Array> array(std::size_t item);
  void drop(std::size_t item);
  [[nodiscard]] Error error();

  // Stops reading, waits for the threads and releases all memory. Idempotent, from any thread.
  void close() noexcept;

 private:
  BackgroundLoad(Stream stream, std::size_t items);
  ~BackgroundLoad() { close(); }
  void run() noexcept;
  State state_of(std::size_t item) const;
  State state_at(std::size_t position) const;
  template <class Look>
  State wait_until(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds limit, Look look);

  const pid_t process_ = ::getpid();
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::optional<Stream> stream_;  // empty once the last item is complete
  std::vector<std::optional<Array>> arrays_;
  std::vector<bool> complete_;
  std::vector<std::size_t> order_;  // complete items, in the order of completion
  std::optional<Error> failure_;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace safetensors::python
