// The bytes of one new file: large runs past the page cache if the file is to be durable, the rest through it.
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

#include "io/direct_file.h"
#include "os/system.h"

namespace safetensors::io {

// What survives a power cut once the file is in place.
enum class Sync : std::uint8_t {
  none,  // nothing is promised
  file,  // the old file or the new one
  full,  // the new one
};

// A writer that reports progress writes between two reports at least, and at most, so many bytes.
inline constexpr std::uint64_t kMinBytesPerReport = std::uint64_t{8} << 20;
inline constexpr std::size_t kMaxBytesPerReport = std::size_t{16} << 20;

class FileWriter {
 public:
  // path is for errors. system must outlive the FileWriter.
  FileWriter(Sync sync, std::string_view path, os::System& system) : system_(system), path_(path), sync_(sync) {}
  ~FileWriter() { close(); }
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Takes the descriptor; before all else.
  void adopt(int descriptor) noexcept {
    descriptor_ = descriptor;
    finished_ = false;
  }
  // Gives the descriptor away; the bytes go nowhere until the next adopt().
  [[nodiscard]] int release() noexcept { return std::exchange(descriptor_, -1); }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

  // Large writes go past the page cache from now on, where that is possible and the file is to be durable.
  // name nullptr: the file has no name. Not while another call runs.
  void open_direct(int directory, const char* name);
  // Whether they do.
  [[nodiscard]] bool direct() const noexcept { return direct_ != nullptr && direct_->usable(); }

  // From any number of threads at once, as are the next two. Of more than a chunk directly: by up to kDirectThreads
  // threads. Errors: write_failed, out_of_memory.
  [[nodiscard]] Status write_at(std::uint64_t offset, std::span<const std::byte> bytes) noexcept;
  // Within one chunk of the file, by the calling thread. scratch is used for memory that is not aligned.
  [[nodiscard]] Status write_chunk(std::uint64_t offset, std::span<const std::byte> bytes, ScratchPool& scratch);
  // Copies [from, from + size) of source: if directly, by several threads and 8 MiB of memory, else by the system
  // where both are files, else through a buffer of 1 MiB. Errors also: the source's, file_truncated.
  // *source_failed: whether it was getting the bytes that failed, whatever the error's code. If a write failed as well,
  // that is returned.
  [[nodiscard]] Status copy_at(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t size,
                               bool* source_failed = nullptr) noexcept;

  // Syncs unless nothing is promised, and has the system report what close() would. The descriptor stays open: it holds
  // the file's lock, and a file without a name is named through it. Once, and not while another call runs.
  // Errors: sync_failed, write_failed.
  [[nodiscard]] Status finish();
  [[nodiscard]] bool finished() const noexcept { return finished_; }
  // Without a word about errors; nothing if that was done.
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
  Status after_writing(std::size_t written);
  Error write_failed(int number, std::size_t size, std::uint64_t offset) const;

  os::System& system_;
  const std::string path_;
  const Sync sync_;
  int descriptor_ = -1;
  bool finished_ = false;
  std::unique_ptr<DirectFile> direct_;
  ScratchPool scratch_;
  std::atomic<unsigned> helpers_{kDirectThreads - 1};  // threads that calls may still begin
  std::atomic<std::uint64_t> unflushed_{0};
};

}  // namespace safetensors::io
