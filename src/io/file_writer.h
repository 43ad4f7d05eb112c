// Writes the bytes of one new file. Large writes to a durable file bypass the page cache. All other writes use it.
#pragma once

#include <safetensors/error.h>
#include <safetensors/source.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "io/direct_writer.h"
#include "io/piece_size.h"
#include "os/system.h"

namespace safetensors::io {

// The contents of the path after a power cut, once the file is in place.
enum class Sync : std::uint8_t {
  none,  // no promise
  file,  // the old file or the new file
  full,  // the new file
};

class FileWriter {
 public:
  // path: only for errors. system must outlive the FileWriter.
  FileWriter(Sync sync, std::string_view path, os::System& system) : system_(system), path_(path), sync_(sync) {}
  ~FileWriter() { close(); }
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Takes ownership of the descriptor. Must be called before every other function.
  void adopt(int descriptor) noexcept {
    descriptor_ = descriptor;
    finished_ = false;
    local_ = system_.file_system(descriptor) == os::FileSystem::local;
  }
  // Returns the descriptor and gives up ownership. No bytes can be written until the next adopt().
  [[nodiscard]] int release() noexcept { return std::exchange(descriptor_, -1); }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

  // Takes bounce buffers from a pool that several files share, so that their memory does not grow with the number of
  // files. The pool must outlive the FileWriter. Must not be called while another call runs.
  void share_bounce_buffers(BounceBufferPool& shared) noexcept { bounce_buffers_ = &shared; }

  // Makes large writes bypass the page cache, if the system supports it and the file must be durable. name: nullptr if
  // the file has no name. Must not be called while another call runs.
  void open_direct(int directory, const char* name);
  // Returns whether large writes bypass the page cache.
  [[nodiscard]] bool direct() const noexcept { return direct_ != nullptr && direct_->usable(); }

  // The next three functions are thread-safe.
  // Writes bytes at offset. Direct writes of more than one chunk use up to kDirectThreads threads. Errors:
  // write_failed, out_of_memory.
  [[nodiscard]] Status write_at(std::uint64_t offset, std::span<const std::byte> bytes) noexcept;
  // Writes bytes that lie in one chunk of the file, in the calling thread. Memory that is not aligned is copied through
  // a bounce buffer.
  [[nodiscard]] Status write_chunk(std::uint64_t offset, std::span<const std::byte> bytes,
                                   BounceBufferPool& bounce_buffers);
  // Copies [from, from + size) of source to offset. Direct copies use several threads and up to 8 MiB of memory. Other
  // copies between files are made by the system where that can be faster. All others go through a buffer of 256 KiB.
  // Errors also: those of the source, file_truncated.
  // *source_failed: set to true if the bytes could not be read (or there was no memory for them), whatever the error's
  // code is, else to false. If a write failed too, the function returns the error of the write.
  [[nodiscard]] Status copy_at(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t size,
                               bool* source_failed = nullptr) noexcept;

  // Syncs the file unless Sync is none, and makes the system report the errors that close() would report. The
  // descriptor stays open: it holds the file's lock, and a file without a name gets its name through it. Must be called
  // only once, and not while another call runs. Errors: sync_failed, write_failed.
  [[nodiscard]] Status finish();
  [[nodiscard]] bool finished() const noexcept { return finished_; }
  // Idempotent. Ignores errors.
  void close() noexcept;

 private:
  class WriteTasks;
  class CopyTasks;
  template <class ChunkTasks>
  Status run_chunks(ChunkTasks& tasks, std::size_t count);

  Status write_buffered(std::uint64_t offset, std::span<const std::byte> bytes);
  Status copy_in_chunks(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t size,
                        bool& source_failed);
  Status copy_by_system(std::uint64_t& offset, const Source& source, std::uint64_t& from, std::uint64_t& size,
                        bool& source_failed);
  Status copy_through_buffer(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t size,
                             bool& source_failed);
  [[nodiscard]] bool system_copies_well(const Source& source, std::uint64_t from, std::uint64_t offset) const noexcept;
  Status after_writing(std::size_t written);
  Error write_failed(int error_number, std::size_t size, std::uint64_t offset) const;

  os::System& system_;
  const std::string path_;
  const Sync sync_;
  int descriptor_ = -1;
  bool finished_ = false;
  bool local_ = true;  // whether the file is on a local file system
  std::unique_ptr<DirectWriter> direct_;
  BounceBufferPool own_bounce_buffers_;
  BounceBufferPool* bounce_buffers_ = &own_bounce_buffers_;
  std::atomic<unsigned> helpers_{kDirectThreads - 1};  // number of threads that calls may still start
  std::atomic<std::uint64_t> written_{0};              // bytes written in all
  PieceSize piece_size_;                               // of writes to the page cache of a local file
};

}  // namespace safetensors::io
