// Writes and copies bytes into one new file, with the fastest method that the file allows.
//
// A durable file bypasses the page cache: large writes are cut into chunks of 2 MiB, which up to four threads write
// with O_DIRECT. Unaligned heads and tails of chunks, and all writes to other files, go through the page cache, in
// pieces of 256 KiB to 4 MiB: for larger writes, some file systems look for large pages. That is faster, but takes
// several times as long if memory is fragmented (1 GiB to ext4 on Linux 6.18: 1.5 to 2.2 s instead of 0.3 s).
//
// A copy between files lets the system copy (copy_file_range), because that may share blocks, or happen on a server. On
// a local file system, the system cannot share blocks if the two offsets differ by a part of a block. Then it copies
// every page in two parts, and a buffer is faster (1 GiB: 0.32 s instead of 0.44 s).
#include "io/file_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "base/error.h"
#include "os/memory.h"
#include "os/parallel.h"
#include "os/regular_file.h"
#include "os/system_error.h"
#include "os/thread_usage.h"

namespace safetensors::io {
namespace {

constexpr std::size_t kWritebackBytes = std::size_t{32} << 20;  // bytes written between two starts of writeback
constexpr std::size_t kBuffer = std::size_t{256} << 10;         // bytes; for copies that the system does not make
constexpr std::uint64_t kUsualBlock = 4096;                     // bytes; the usual block of a file system
// In bytes. The page cache gathers smaller writes. A direct write would wait for the disk each time.
constexpr std::size_t kMinDirectWrite = std::size_t{256} << 10;

// Subtracts up to `wanted` from remaining, and returns the number subtracted.
unsigned take(std::atomic<unsigned>& remaining, std::size_t wanted) noexcept {
  unsigned now = remaining.load();
  unsigned taken = 0;
  do {
    taken = static_cast<unsigned>(std::min<std::size_t>(now, wanted));
  } while (!remaining.compare_exchange_weak(now, now - taken));
  return taken;
}

}  // namespace

class FileWriter::WriteTasks final : public os::Tasks {
 public:
  WriteTasks(FileWriter& file, Chunks chunks, const std::byte* bytes) noexcept
      : file_(file), chunks_(chunks), bytes_(bytes) {}
  [[nodiscard]] Status run(std::size_t index) noexcept override {
    return base::guarded([&] {
      const Chunks::Range chunk = chunks_[index];
      return file_.write_chunk(chunk.offset, {bytes_ + (chunk.offset - chunks_.offset), chunk.size},
                               *file_.bounce_buffers_);
    });
  }

 private:
  FileWriter& file_;
  const Chunks chunks_;
  const std::byte* const bytes_;
};

class FileWriter::CopyTasks final : public os::Tasks {
 public:
  CopyTasks(FileWriter& file, Chunks chunks, const Source& source, std::uint64_t from) noexcept
      : file_(file), chunks_(chunks), source_(source), from_(from) {}
  [[nodiscard]] Status run(std::size_t index) noexcept override {
    return base::guarded([&]() -> Status {
      const Chunks::Range chunk = chunks_[index];
      const Result<BounceBufferPool::Lease> buffer = file_.bounce_buffers_->take();
      if (!buffer) return buffer.error();
      const std::span<std::byte> bytes(buffer->at(chunk.offset), chunk.size);
      if (Status status = os::read_exactly(source_, from_ + (chunk.offset - chunks_.offset), bytes); !status)
        return status;
      // The buffer is aligned, so write_chunk() takes no second buffer. Otherwise all threads could wait for each
      // other.
      Status status = file_.write_chunk(chunk.offset, bytes, *file_.bounce_buffers_);
      if (status) return status;
      const std::lock_guard lock(mutex_);
      if (!write_failure_) write_failure_ = status.error();
      return status;
    });
  }
  // The first failure of a write. Must be called after all tasks.
  [[nodiscard]] std::optional<Error> write_failure() noexcept { return std::move(write_failure_); }

 private:
  FileWriter& file_;
  const Chunks chunks_;
  const Source& source_;
  const std::uint64_t from_;
  std::mutex mutex_;
  std::optional<Error> write_failure_;
};

void FileWriter::close() noexcept {
  direct_.reset();
  if (descriptor_ >= 0) (void)system_.close(std::exchange(descriptor_, -1));
}

void FileWriter::open_direct(int directory, const char* name) {
  if (sync_ != Sync::none) direct_ = DirectWriter::open(directory, name, descriptor_, system_);
}

Error FileWriter::write_failed(int error_number, std::size_t size, std::uint64_t offset) const {
  Error error =
      os::system_error(Errc::write_failed, error_number,
                       "cannot write " + std::to_string(size) + " bytes at byte " + std::to_string(offset), path_);
  error.offset = offset;
  return error;
}

// Starts writeback every kWritebackBytes bytes: the earlier the disk works, the shorter the final fsync().
Status FileWriter::after_writing(std::size_t written) {
  if (sync_ == Sync::none) return {};
  const std::uint64_t before = written_.fetch_add(written);
  if (before / kWritebackBytes == (before + written) / kWritebackBytes) return {};
  if (system_.start_writeback(descriptor_) == 0 || (errno != EIO && !os::out_of_space(errno))) return {};
  return os::system_error(Errc::write_failed, errno, "cannot write", path_);
}

Status FileWriter::write_buffered(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), local_ ? piece_size_.next() : kWritebackBytes);
    const PieceSize::Time begin = os::thread_cpu_time();
    const std::ptrdiff_t count = system_.write_at(descriptor_, bytes.data(), size, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return write_failed(count < 0 ? errno : EIO, size, offset);
    const auto written = static_cast<std::size_t>(count);
    piece_size_.record(written, os::thread_cpu_time() - begin);
    bytes = bytes.subspan(written);
    offset += written;
    if (Status status = after_writing(written); !status) return status;
  }
  return {};
}

// Splits the chunk into an unaligned head, whole blocks and a tail. Only the whole blocks are written directly.
Status FileWriter::write_chunk(std::uint64_t offset, std::span<const std::byte> bytes,
                               BounceBufferPool& bounce_buffers) {
  if (!direct() || bytes.size() < direct_->block()) return write_buffered(offset, bytes);
  const std::size_t block = direct_->block();
  const std::size_t head = (block - static_cast<std::size_t>(offset % block)) % block;
  const std::size_t whole = bytes.size() < head ? 0 : (bytes.size() - head) / block * block;
  if (whole == 0) return write_buffered(offset, bytes);
  if (Status status = write_buffered(offset, bytes.first(head)); !status) return status;

  const std::uint64_t begin = offset + head;
  std::span<const std::byte> blocks = bytes.subspan(head, whole);
  DirectWriter::Outcome outcome{};
  if (direct_->aligned(blocks.data())) {
    outcome = direct_->write(begin, blocks);
  } else {
    const Result<BounceBufferPool::Lease> copy = bounce_buffers.take();
    if (!copy) return copy.error();
    std::memcpy(copy->at(begin), blocks.data(), whole);
    outcome = direct_->write(begin, {copy->at(begin), whole});
  }
  if (outcome.error_number != 0)
    return write_failed(outcome.error_number, whole - outcome.written, begin + outcome.written);
  return write_buffered(begin + outcome.written, bytes.subspan(head + outcome.written));
}

// All calls share kDirectThreads - 1 helper threads. Each call also uses the caller's thread, so it always advances.
template <class ChunkTasks>
Status FileWriter::run_chunks(ChunkTasks& tasks, std::size_t count) {
  const unsigned helpers = take(helpers_, count - 1);
  Status status = os::run_parallel(tasks, count, helpers + 1);
  helpers_.fetch_add(helpers);
  return status;
}

Status FileWriter::write_at(std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
  return base::guarded([&]() -> Status {
    if (!direct() || bytes.size() < kMinDirectWrite) return write_buffered(offset, bytes);
    const Chunks chunks{offset, bytes.size()};
    WriteTasks tasks(*this, chunks, bytes.data());
    return run_chunks(tasks, chunks.count());
  });
}

Status FileWriter::copy_in_chunks(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t size,
                                  bool& source_failed) {
  const Chunks chunks{offset, size};
  CopyTasks tasks(*this, chunks, source, from);
  Status status = run_chunks(tasks, chunks.count());
  if (status) return status;
  if (std::optional<Error> failure = tasks.write_failure()) return *std::move(failure);
  source_failed = true;
  return status;
}

bool FileWriter::system_copies_well(const Source& source, std::uint64_t from, std::uint64_t offset) const noexcept {
  const auto* file = os::RegularFile::of(source);
  if (file == nullptr) return false;
  return !local_ || file->file_system() != os::FileSystem::local || from % kUsualBlock == offset % kUsualBlock;
}

// Lets the system copy as much as it can. Changes offset, from and size to the rest.
Status FileWriter::copy_by_system(std::uint64_t& offset, const Source& source, std::uint64_t& from, std::uint64_t& size,
                                  bool& source_failed) {
  const auto& file = *os::RegularFile::of(source);
  while (size != 0) {
    const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(size, kWritebackBytes));
    const Result<os::Lease> lease = file.lease();
    source_failed = !lease;
    if (!lease) return lease.error();
    const std::ptrdiff_t count = system_.copy_range(lease->get(), from, descriptor_, offset, length);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;  // A copy through a buffer works or reports the error.
    const auto copied = static_cast<std::size_t>(count);
    offset += copied, from += copied, size -= copied;
    if (Status status = after_writing(copied); !status) return status;
  }
  return {};
}

Status FileWriter::copy_through_buffer(std::uint64_t offset, const Source& source, std::uint64_t from,
                                       std::uint64_t size, bool& source_failed) {
  const auto capacity = static_cast<std::size_t>(std::min<std::uint64_t>(size, kBuffer));
  const Result<std::shared_ptr<std::byte>> memory = os::allocate(capacity);
  source_failed = !memory;
  if (!memory) return memory.error();
  while (size != 0) {
    const std::span<std::byte> bytes(memory->get(), static_cast<std::size_t>(std::min<std::uint64_t>(size, capacity)));
    Status status = os::read_exactly(source, from, bytes);
    source_failed = !status;
    if (status) status = write_buffered(offset, bytes);
    if (!status) return status;
    offset += bytes.size(), from += bytes.size(), size -= bytes.size();
  }
  return {};
}

Status FileWriter::copy_at(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t size,
                           bool* source_failed) noexcept {
  bool failed = false;
  Status status = base::guarded([&]() -> Status {
    if (direct() && size >= kMinDirectWrite) return copy_in_chunks(offset, source, from, size, failed);
    if (system_copies_well(source, from, offset)) {
      if (Status copied = copy_by_system(offset, source, from, size, failed); !copied) return copied;
    }
    return size == 0 ? Status() : copy_through_buffer(offset, source, from, size, failed);
  });
  if (source_failed != nullptr) *source_failed = failed;
  return status;
}

Status FileWriter::finish() {
  direct_.reset();
  // Never retry: after a failed fsync() the system may have dropped the dirty pages, and a second fsync() would
  // succeed.
  if (sync_ != Sync::none && system_.sync(descriptor_) != 0)
    return os::system_error(Errc::sync_failed, errno, "cannot make the new file durable", path_);
  // Network file systems report failed writes when any descriptor of the file is closed. Close a duplicate, because the
  // original holds the lock.
  int closed = system_.duplicate(descriptor_);
  if (closed < 0 && system_.file_system(descriptor_) != os::FileSystem::local) closed = release();
  if (closed >= 0 && system_.close(closed) != 0 && errno != EINTR)
    return os::system_error(Errc::write_failed, errno, "cannot close the new file", path_);
  finished_ = true;
  return {};
}

}  // namespace safetensors::io
