// Writes the bytes of one new file. Large writes to a durable file bypass the page cache. All other writes use it.
#pragma once

#include <safetensors/durability.h>
#include <safetensors/error.h>
#include <safetensors/source.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "os/descriptor.h"
#include "os/system.h"

namespace safetensors::io {

inline constexpr std::size_t kDirectChunk = std::size_t{2} << 20;  // bytes; chunks begin at multiples of this
// Minimum size of a file that is opened for direct writes, in bytes. They gain nothing for smaller files.
inline constexpr std::uint64_t kMinDirectFile = std::uint64_t{1} << 20;
// The measured number of threads that keep a disk busy while some of them fill the memory for the next write.
inline constexpr unsigned kDirectThreads = 4;

// Lends aligned buffers of kDirectChunk bytes, at most kDirectThreads at a time. Other threads wait for a free buffer.
// Thread-safe.
class BounceBufferPool {
 public:
  BounceBufferPool() = default;
  BounceBufferPool(const BounceBufferPool&) = delete;
  BounceBufferPool& operator=(const BounceBufferPool&) = delete;
  ~BounceBufferPool() = default;

  // Waits for a buffer. Returns the memory for the bytes of a chunk from `offset` on. Its address and the file offset
  // are equal modulo kDirectChunk, so whole blocks are aligned in memory too. The pointer returns the buffer to the
  // pool, and must not outlive it. Error: out_of_memory, if there is no memory for even one buffer.
  [[nodiscard]] Result<std::shared_ptr<std::byte>> take(std::uint64_t offset);

 private:
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::shared_ptr<std::byte>> free_;
  unsigned made_ = 0;  // number of buffers allocated
};

class FileWriter {
 public:
  // path: only for errors.
  FileWriter(Durability durability, std::string_view path) : path_(path), durability_(durability) {}
  ~FileWriter() = default;
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Takes ownership of the descriptor. Must be called before every other function.
  void adopt(int descriptor) noexcept {
    descriptor_ = os::Descriptor(descriptor);
    finished_ = false;
    local_ = os::file_system_of(descriptor) == os::FileSystem::local;
  }
  // Returns the descriptor and gives up ownership. No bytes can be written until the next adopt().
  [[nodiscard]] int release() noexcept { return descriptor_.release(); }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.get(); }

  // Takes bounce buffers from a pool that several files share, so that their memory does not grow with the number of
  // files. The pool must outlive the FileWriter. Must not be called while another call runs.
  void share_bounce_buffers(BounceBufferPool& shared) noexcept { bounce_buffers_ = &shared; }

  // Makes large writes bypass the page cache (O_DIRECT), if the system supports it and the file must be durable. Opens
  // the file a second time: by its name in a directory, or through /proc if name is nullptr. On file systems in memory,
  // over a network or in user space, direct writes gain nothing. Must not be called while another call runs.
  void open_direct(int directory, const char* name);
  // Returns whether large writes bypass the page cache.
  [[nodiscard]] bool direct() const noexcept {
    return direct_.valid() && !direct_refused_.load(std::memory_order_relaxed);
  }

  // The next three functions are thread-safe.
  // Writes bytes at offset. Direct writes of more than one chunk use up to kDirectThreads threads. Errors:
  // write_failed, out_of_memory.
  [[nodiscard]] Status write_at(std::uint64_t offset, std::span<const std::byte> bytes) noexcept;
  // Writes bytes that lie in one chunk of the file, in the calling thread. Memory that is not aligned is copied through
  // a bounce buffer.
  [[nodiscard]] Status write_chunk(std::uint64_t offset, std::span<const std::byte> bytes);
  // Copies [from, from + size) of source to offset. Writes from Source::memory() if the source has the range. Direct
  // copies use several threads and up to 8 MiB of memory. Other copies between files are made by the system where that
  // can be faster. All others go through a buffer of 1 MiB. Errors also: those of the source, file_truncated. They
  // have no path.
  [[nodiscard]] Status copy_at(std::uint64_t offset, const Source& source, std::uint64_t from,
                               std::uint64_t size) noexcept;

  // Syncs the file, unless its durability is `none`. Makes the system report the errors that close() would report. The
  // descriptor stays open: it holds the file's lock, and a file without a name gets its name through it. Must be called
  // only once, and not while another call runs. Errors: sync_failed, write_failed.
  [[nodiscard]] Status finish();
  [[nodiscard]] bool finished() const noexcept { return finished_; }
  // Idempotent. Ignores errors.
  void close() noexcept {
    direct_.reset();
    descriptor_.reset();
  }

 private:
  template <class Write>
  Status write_chunks(std::uint64_t offset, std::uint64_t size, const Write& write);
  Status write_direct(std::uint64_t offset, std::span<const std::byte> blocks, std::size_t& done);
  Status write_buffered(std::uint64_t offset, std::span<const std::byte> bytes);
  Status copy_in_chunks(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t size);
  Status copy_through_cache(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t size);
  Status after_writing(std::size_t written);
  Error write_failed(int error_number, std::size_t size, std::uint64_t offset) const;

  const std::string path_;
  const Durability durability_;
  os::Descriptor descriptor_;
  bool finished_ = false;
  bool local_ = true;      // whether the file is on a local file system
  os::Descriptor direct_;  // the file, opened with O_DIRECT
  // Offset and size of a direct write must be multiples of this number of bytes. It is a multiple of the page size, so
  // that no page is written both directly and through the page cache. It is a multiple of the memory alignment too, so
  // that a buffer from BounceBufferPool::take() is aligned.
  std::size_t block_ = 0;
  std::size_t memory_alignment_ = 1;
  std::atomic<bool> direct_refused_{false};  // the system has refused a direct write
  BounceBufferPool own_bounce_buffers_;
  BounceBufferPool* bounce_buffers_ = &own_bounce_buffers_;
  std::atomic<int> helpers_{kDirectThreads - 1};  // number of threads that calls may still start
  std::atomic<std::uint64_t> written_{0};         // bytes written in all
};

}  // namespace safetensors::io
