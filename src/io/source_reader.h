// How the bytes of one source come into memory: settled when a transfer begins, then used by its threads.
#pragma once

#include <safetensors/error.h>
#include <safetensors/source.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "os/posix_file.h"
#include "os/system.h"

namespace safetensors::io {

enum class Caching : std::uint8_t {
  keep,    // what is in the page cache comes from there, the rest past it, which leaves the cache as it is
  fill,    // all through the page cache, where it stays
  drop,    // all through the page cache; what was read is then given up
  bypass,  // past the page cache, whatever is in it
};

// What was asked of a source, by one thread.
struct ReadCounts {
  std::uint64_t buffered = 0;  // bytes read through the page cache, or by a source of the caller's
  std::uint64_t direct = 0;    // bytes read past it
  std::uint64_t calls = 0;     // reads

  ReadCounts& operator+=(const ReadCounts& other) noexcept {
    buffered += other.buffered, direct += other.direct, calls += other.calls;
    return *this;
  }
};

// A thread's own memory for reads whose destination a device cannot write to.
class BounceBuffer {
 public:
  static constexpr std::size_t kBytes = std::size_t{1} << 20;
  // kBytes bytes at a multiple of 4096, allocated at the first call. Error: out_of_memory.
  [[nodiscard]] Result<std::span<std::byte>> memory() noexcept;

 private:
  std::shared_ptr<std::byte> memory_;
};

// What is to be read of a source, and how.
struct Transfer {
  Caching caching = Caching::keep;
  std::uint64_t begin = 0;  // of the source's bytes
  std::uint64_t size = 0;
  std::uint64_t work = 0;  // what finish() will count down from
};

class SourceReader {
 public:
  // directs: where the descriptor goes that reads past the page cache. The source and the system must outlive the path.
  SourceReader(const Source& source, const Transfer& transfer, os::PoolSlot directs,
               os::System& system = os::real_system()) noexcept;
  ~SourceReader();
  SourceReader(const SourceReader&) = delete;
  SourceReader& operator=(const SourceReader&) = delete;

  // Fills destination from offset on. From any number of threads, each with its own counts and bounce.
  // Errors: the source's, file_truncated, out_of_memory.
  [[nodiscard]] Status read(std::uint64_t offset, std::span<std::byte> destination, ReadCounts& counts,
                            BounceBuffer& bounce) const noexcept;

  // So much of the work is done. When all of it is, the path gives up what it holds open. From any thread.
  void finish(std::uint64_t work) const noexcept;

  // How much is best read at once.
  [[nodiscard]] std::size_t piece() const noexcept { return piece_; }
  // Reads wait for a device or a network: more threads than there are processors pay.
  [[nodiscard]] bool waits() const noexcept { return waits_; }
  // It is for a network.
  [[nodiscard]] bool remote() const noexcept {
    return file_ != nullptr && file_->file_system() == os::FileSystem::remote;
  }
  // Where the device should find memory: address and file offset equal modulo this; 1 if it does not matter.
  [[nodiscard]] std::size_t direct_alignment() const noexcept { return directs_ ? memory_alignment_ : 1; }
  // Why reads that were to go past the page cache did not; 0 if none.
  [[nodiscard]] int direct_refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

 private:
  class Counted;
  class OpenDirect;
  void prepare_direct(int descriptor) noexcept;
  [[nodiscard]] std::optional<os::Lease> open_direct() const noexcept;
  [[nodiscard]] bool wants_direct(std::uint64_t offset, std::size_t size) const noexcept;
  Status read_buffered(std::uint64_t offset, std::span<std::byte> destination, ReadCounts& counts) const noexcept;
  Status read_direct(int direct, std::uint64_t offset, std::span<std::byte> destination, ReadCounts& counts,
                     BounceBuffer& bounce) const noexcept;
  Status read_bounced(int direct, std::uint64_t offset, std::span<std::byte> destination, ReadCounts& counts,
                      BounceBuffer& bounce) const noexcept;
  Status direct_call(int direct, std::uint64_t offset, std::span<std::byte> aligned, std::size_t& got,
                     ReadCounts& counts) const noexcept;

  const Source& source_;
  const os::PosixFile* const file_;  // the source, if it is one
  os::System& system_;
  const os::PoolSlot directs_slot_;
  const Caching caching_;
  std::size_t piece_;
  bool waits_ = false;
  bool directs_ = false;  // some reads should go past the page cache
  std::size_t memory_alignment_ = 4096;
  std::size_t offset_alignment_ = 4096;
  mutable std::atomic<int> refused_{0};
  mutable std::atomic<std::uint64_t> work_;
};

}  // namespace safetensors::io
