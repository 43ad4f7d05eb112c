// A stream's items, taken in by a thread of its own: what a PrefetchLoader stands on. Never asks for the GIL.
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
  // Leaks what a forked child has inherited: the threads that it would wait for are the parent's.
  struct Delete {
    void operator()(BackgroundLoad* load) const noexcept;
  };
  using Owner = std::unique_ptr<BackgroundLoad, Delete>;

  // Reads everything that the plan names, however little of it is taken. Error: out_of_memory.
  [[nodiscard]] static Result<Owner> start(const ReadPlan& plan, unsigned threads);

  BackgroundLoad(const BackgroundLoad&) = delete;
  BackgroundLoad& operator=(const BackgroundLoad&) = delete;

  // In a child of the process that started it nothing else may be called.
  [[nodiscard]] bool forked() const noexcept { return ::getpid() != process_; }

  // Of an item, and of an iterator: end is behind the last item.
  enum class State : std::uint8_t { waiting, ready, failed, closed, end };
  // Waits no longer than that for another state than waiting.
  State wait(std::size_t item, std::chrono::milliseconds longest);
  // The same for the item that became complete as number `position`; ready: it is *item, and position is counted up.
  State wait_next(std::size_t& position, std::size_t* item, std::chrono::milliseconds longest);

  // nullopt when it was dropped, or everything was closed.
  [[nodiscard]] std::optional<Array> array(std::size_t item);
  void drop(std::size_t item);
  [[nodiscard]] Error error();

  // Stops reading, waits until that is so, and gives up all memory. Any thread, again and again.
  void close() noexcept;

 private:
  BackgroundLoad(Stream stream, std::size_t items);
  ~BackgroundLoad() { close(); }
  void run() noexcept;
  State state_of(std::size_t item) const;
  State state_at(std::size_t position) const;
  template <class Look>
  State wait_until(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds longest, Look look);

  const pid_t process_ = ::getpid();
  std::mutex mutex_;  // of all that follows
  std::condition_variable changed_;
  std::optional<Stream> stream_;  // until the last item is there
  std::vector<std::optional<Array>> arrays_;
  std::vector<bool> complete_;
  std::vector<std::size_t> order_;  // in which items became complete
  std::optional<Error> failure_;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace safetensors::python
