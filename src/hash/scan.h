// One pass over a source that feeds several hash functions.
#pragma once

#include <safetensors/error.h>
#include <safetensors/source.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "io/progress.h"
#include "os/parallel.h"

namespace safetensors::hash {

// Reads the blocks of a source and gives each block to all consumers. Every thread takes the next piece of work that is
// ready: a block for a consumer, or a block to read. At most kMaxBytes are in memory.
class Scan final : public os::Tasks {
 public:
  // Gets a block: the offset of its first byte in the source, and its bytes. Must not throw.
  using Consumer = std::function<Status(std::uint64_t offset, std::span<const std::byte> bytes)>;

  // meter: counts the bytes that were read. The source and the meter must outlive this.
  Scan(const Source& source, std::uint64_t size, std::size_t block_bytes, io::ProgressMeter& meter)
      : source_(source), size_(size), block_bytes_(block_bytes), meter_(meter) {}

  // Adds a consumer that gets the blocks in order, one at a time.
  void add_ordered(Consumer consumer) { ordered_.push_back({std::move(consumer)}); }
  // Adds a consumer that gets blocks in any order, several at the same time. At most one.
  void set_unordered(Consumer consumer) { unordered_ = std::move(consumer); }

  // Reads everything. Uses up to `threads` threads, including the calling thread. Returns the first error of the source
  // or of a consumer. Throws std::bad_alloc.
  [[nodiscard]] Status run_all(unsigned threads);

  // The work of one thread.
  [[nodiscard]] Status run(std::size_t index) noexcept override;

 private:
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

  struct Lane {
    Consumer consumer;
    std::uint64_t next = 0;  // block
    bool busy = false;
  };
  enum class State : unsigned char { free, reading, loaded };
  struct Slot {
    std::vector<std::byte> bytes;
    std::uint64_t block = 0;
    State state = State::free;
    bool unordered_taken = false;
    std::size_t pending = 0;  // consumers that have not finished with the block
  };

  // The functions below return whether they found work. They hold the lock on entry and on return, but not during work.
  bool feed_lane(std::unique_lock<std::mutex>& lock);
  bool feed_unordered(std::unique_lock<std::mutex>& lock);
  bool read_block(std::unique_lock<std::mutex>& lock);
  void leave(Slot& slot);
  void note(const Status& status);
  [[nodiscard]] std::span<const std::byte> bytes_of(const Slot& slot) const;
  [[nodiscard]] std::uint64_t offset_of(const Slot& slot) const { return slot.block * block_bytes_; }

  const Source& source_;
  const std::uint64_t size_;
  const std::size_t block_bytes_;
  io::ProgressMeter& meter_;
  Consumer unordered_;

  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  std::vector<Lane> ordered_;
  std::vector<Slot> slots_;  // block b is in slot b % slots_.size()
  std::uint64_t blocks_ = 0;
  std::uint64_t next_read_ = 0;  // block
  std::uint64_t finished_ = 0;   // blocks that all consumers have had
  Status status_;                // the first error
};

}  // namespace safetensors::hash
