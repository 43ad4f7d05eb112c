// Reads one Source. It chooses a method when a transfer begins, and buffered or direct I/O per read.
#pragma once

#include <safetensors/error.h>
#include <safetensors/source.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "os/regular_file.h"

namespace safetensors::io {

// The reads of one thread. Bytes are those that calls returned, also if the whole read then failed.
struct ReadCounts {
  std::uint64_t buffered = 0;  // bytes read through the page cache, or from a caller's Source
  std::uint64_t direct = 0;    // bytes read with O_DIRECT, whole blocks
  std::uint64_t mapped = 0;    // bytes copied from memory instead; a SourceReader counts none
  std::uint64_t calls = 0;     // calls of read_at() of a file or a Source

  ReadCounts& operator+=(const ReadCounts& other) noexcept {
    buffered += other.buffered, direct += other.direct, mapped += other.mapped, calls += other.calls;
    return *this;
  }
};

// Memory of one thread: for direct reads whose destination is not aligned, for reading short pieces together, or for
// bytes that are not yet in the form of the result.
class BounceBuffer {
 public:
  static constexpr std::size_t kBytes = std::size_t{1} << 20;
  // One huge page, for long direct reads: the system cuts a read into small pages into many requests to the device.
  static constexpr std::size_t kHugeBytes = std::size_t{2} << 20;
  // Returns memory that is aligned to 4096 bytes. Allocates if it has less. Error: out_of_memory.
  [[nodiscard]] Result<std::span<std::byte>> memory(std::size_t size = kBytes) noexcept;

 private:
  std::shared_ptr<std::byte> memory_;
  std::size_t size_ = 0;
};

class SourceReader;

// The state that one thread keeps between its reads.
struct ReaderThread {
  BounceBuffer bounce;
  ReadCounts counts;
  const SourceReader* reader = nullptr;        // `own` is its file
  std::shared_ptr<const os::RegularFile> own;  // the file, opened for this thread alone; null: it could not be opened
};

// The range of a source that will be read.
struct Transfer {
  std::uint64_t begin = 0;       // offset of the range
  std::uint64_t size = 0;        // bytes of the range
  bool in_runs = false;          // each thread reads long runs of consecutive ranges
  bool sparse = false;           // most bytes of the range are in gaps that nobody reads
  bool assume_uncached = false;  // the page cache counts as empty
};

// Large reads of bytes that the page cache lacks bypass it, unless fill_cache() was called.
class SourceReader {
 public:
  // The source must outlive the reader.
  SourceReader(const Source& source, const Transfer& transfer) noexcept;
  SourceReader(const SourceReader&) = delete;
  SourceReader& operator=(const SourceReader&) = delete;

  // Fills destination with bytes from offset on. Thread-safe. Each thread needs a ReaderThread of its own. Errors:
  // those of the source, file_truncated, out_of_memory.
  [[nodiscard]] Status read(std::uint64_t offset, std::span<std::byte> destination,
                            ReaderThread& thread) const noexcept;

  // From now on, all bytes come through the page cache and stay there. Call it before the first read.
  void fill_cache() noexcept;

  // The best number of bytes per read.
  [[nodiscard]] std::size_t chunk_bytes() const noexcept { return chunk_bytes_; }
  // False if one thread at a time may read.
  [[nodiscard]] bool concurrent() const noexcept { return source_.concurrent(); }
  // True if reads wait for a device or a network. Then more threads than processors are worth it.
  [[nodiscard]] bool waits() const noexcept { return waits_; }
  // True if reads copy from the page cache of this machine, and may leave the bytes there.
  [[nodiscard]] bool cached() const noexcept { return file_ != nullptr && !waits_; }
  // True if the system reads ahead for each thread. Then a thread should read one range of the file after the other.
  [[nodiscard]] bool reads_ahead() const noexcept { return reads_ahead_; }
  // True if the source is on a network file system.
  [[nodiscard]] bool remote() const noexcept {
    return file_ != nullptr && file_->file_system() == os::FileSystem::remote;
  }
  // Alignment of destinations in bytes. If the address of a destination and its file offset are equal modulo this
  // number, direct reads need no bounce buffer. 1: every address is aligned.
  [[nodiscard]] std::size_t direct_alignment() const noexcept { return tries_direct_ ? memory_alignment_ : 1; }
  // The error_number of the fallback: why direct reads were requested but are unavailable. 0 if there is no fallback.
  [[nodiscard]] int direct_refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

 private:
  void prepare_remote(int descriptor) noexcept;
  void prepare_direct(int descriptor) noexcept;
  void request_windows(std::uint64_t offset, std::size_t size) const noexcept;
  [[nodiscard]] bool has_own_file(ReaderThread& thread) const noexcept;
  int open_again(std::shared_ptr<const os::RegularFile>& own) const noexcept;
  [[nodiscard]] bool is_cached(int descriptor, std::uint64_t offset, std::uint64_t size) const noexcept;
  [[nodiscard]] bool wants_direct(std::uint64_t offset, std::size_t size) const noexcept;
  Status read_buffered(std::uint64_t offset, std::span<std::byte> destination, ReaderThread& thread) const noexcept;
  Status read_direct(std::uint64_t offset, std::span<std::byte> destination, ReaderThread& thread) const noexcept;
  Status read_bounced(std::uint64_t offset, std::span<std::byte> destination, ReaderThread& thread) const noexcept;
  Result<std::size_t> direct_call(std::uint64_t offset, std::span<std::byte> blocks,
                                  ReaderThread& thread) const noexcept;

  const Source& source_;
  const os::RegularFile* const file_;  // the source, or null if it is not a file
  const bool assume_uncached_;
  const std::uint64_t size_;  // bytes of the range
  std::size_t chunk_bytes_;
  bool waits_ = false;
  bool requests_windows_ = false;  // on a network: reads ask for the ranges around and ahead
  const bool in_runs_;
  const bool sparse_;
  bool reads_ahead_ = false;                   // each thread reads through a file of its own
  mutable std::atomic<int> descriptors_left_;  // number of further threads that may open the file to fill the cache
  bool tries_direct_ = false;                  // some reads should bypass the page cache
  std::size_t memory_alignment_ = 4096;        // bytes
  std::size_t offset_alignment_ = 4096;        // bytes
  mutable std::atomic<int> refused_{0};        // error_number
};

}  // namespace safetensors::io
