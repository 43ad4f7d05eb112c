// Writes and copies bytes into one new file, with the fastest method that the file allows.
//
// A durable file bypasses the page cache: large writes are cut into chunks of 2 MiB, which up to four threads write
// with O_DIRECT. Unaligned heads and tails of chunks, and all writes to other files, go through the page cache.
//
// Writes to the page cache have 1 MiB. For larger writes, some file systems look for larger pages. That gains at most
// 5 % (ext4, Linux 6.18), and with fragmented memory, writes of 2 MiB sometimes took three times as long.
//
// A durable file must reach the device anyway, and a write without the page cache saves one copy and the work of
// reclaiming pages. O_DIRECT has many restrictions that differ between file systems. So every failure means only that
// the page cache is used instead.
//
// A copy between files lets the system copy (copy_file_range), because that may share blocks, or happen on a server. On
// a local file system, the system cannot share blocks if the two offsets differ by a part of a block. Then it copies
// every page in two parts, and a buffer is faster (1 GiB: 0.32 s instead of 0.44 s).
#include "io/file_writer.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "os/file_status.h"
#include "os/memory.h"
#include "os/open.h"
#include "os/parallel.h"
#include "os/regular_file.h"
#include "os/system_error.h"

namespace safetensors::io {
namespace {

constexpr std::size_t kWritebackBytes = std::size_t{32} << 20;  // bytes written between two starts of writeback
constexpr std::size_t kPiece = std::size_t{1} << 20;            // bytes per write to the page cache of a local file
constexpr std::uint32_t kUsualBlock = 4096;                     // bytes; the usual block of a file system
// In bytes. The page cache gathers smaller writes. A direct write would wait for the disk each time.
constexpr std::size_t kMinDirectWrite = std::size_t{256} << 10;

bool fits(const os::DirectAlignment& alignment) noexcept {
  return std::has_single_bit(alignment.memory) && std::has_single_bit(alignment.offset) &&
         alignment.memory <= kDirectChunk && alignment.offset <= kDirectChunk;
}

}  // namespace

Result<std::shared_ptr<std::byte>> BounceBufferPool::take(std::uint64_t offset) {
  std::unique_lock lock(mutex_);
  free_.reserve(kDirectThreads);  // to return a buffer must not allocate
  // If memory runs out, wait for a buffer of another thread. The first buffer is needed, otherwise nobody would return
  // one.
  while (free_.empty()) {
    if (made_ < kDirectThreads) {
      Result<std::shared_ptr<std::byte>> memory = os::allocate(kDirectChunk, kDirectChunk);
      if (memory) {
        ++made_;
        free_.push_back(*std::move(memory));
        break;
      }
      if (made_ == 0) return std::move(memory).error();
    }
    returned_.wait(lock);
  }
  std::shared_ptr<std::byte> memory = std::move(free_.back());
  free_.pop_back();
  lock.unlock();
  std::byte* const begin = memory.get() + offset % kDirectChunk;
  return std::shared_ptr<std::byte>(begin, [this, memory](const std::byte*) {
    const std::lock_guard returning(mutex_);
    free_.push_back(memory);
    returned_.notify_one();
  });
}

void FileWriter::open_direct(int directory, const char* name) {
  // Direct writes gain something only on a device. Other file systems were never measured.
  if (durability_ == Durability::none || !local_) return;
  constexpr os::OpenFlags kFlags =
      os::OpenFlags::write | os::OpenFlags::direct | os::OpenFlags::no_wait | os::OpenFlags::no_terminal;
  os::Descriptor opened(name != nullptr
                            ? os::open_at(directory, name, kFlags | os::OpenFlags::no_follow)
                            : os::open_at(os::kWorkingDirectory, os::DescriptorPath(descriptor()).text, kFlags));
  os::FileStatus same, expected;
  if (!opened.valid() || os::status_of(opened.get(), same) != 0 || os::status_of(descriptor(), expected) != 0 ||
      !same.identity.same_file(expected.identity))
    return;
  os::DirectAlignment alignment;
  if (os::direct_alignment(opened.get(), alignment) != 0 || !alignment.known)
    alignment = {.known = true, .memory = kUsualBlock, .offset = kUsualBlock};
  if (!fits(alignment)) return;
  block_ = std::max(
      {std::size_t{alignment.offset}, std::size_t{alignment.memory}, std::size_t{kUsualBlock}, os::page_size()});
  // On file systems with blocks larger than a page, the page cache works in whole blocks.
  if (std::has_single_bit(same.block_size) && same.block_size <= kDirectChunk)
    block_ = std::max(block_, static_cast<std::size_t>(same.block_size));
  memory_alignment_ = alignment.memory;
  direct_ = std::move(opened);
}

// done: the number of bytes written. The rest must be written through the page cache.
Status FileWriter::write_direct(std::uint64_t offset, std::span<const std::byte> blocks, std::size_t& done) {
  while (done < blocks.size() && direct()) {
    // A write can be short, for instance after a signal.
    const std::ptrdiff_t count = os::write_at(direct_.get(), blocks.data() + done, blocks.size() - done, offset + done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EIO || os::out_of_space(errno)))
      return write_failed(errno, blocks.size() - done, offset + done);
    if (count <= 0) {
      // EINVAL, EOPNOTSUPP, memory that cannot be pinned: a write through the page cache works or reports the error.
      direct_refused_.store(true, std::memory_order_relaxed);
      break;
    }
    done += static_cast<std::size_t>(count);
    if (done % block_ != 0) break;  // The rest is no longer aligned.
  }
  return {};
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
  if (durability_ == Durability::none) return {};
  const std::uint64_t before = written_.fetch_add(written);
  if (before / kWritebackBytes == (before + written) / kWritebackBytes) return {};
  if (os::start_writeback(descriptor()) == 0 || (errno != EIO && !os::out_of_space(errno))) return {};
  return os::system_error(Errc::write_failed, errno, "cannot write", path_);
}

Status FileWriter::write_buffered(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), local_ ? kPiece : kWritebackBytes);
    const std::ptrdiff_t count = os::write_at(descriptor(), bytes.data(), size, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return write_failed(count < 0 ? errno : EIO, size, offset);
    const auto written = static_cast<std::size_t>(count);
    bytes = bytes.subspan(written);
    offset += written;
    if (Status status = after_writing(written); !status) return status;
  }
  return {};
}

// Splits the chunk into an unaligned head, whole blocks and a tail. Only the whole blocks are written directly.
Status FileWriter::write_chunk(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (!direct() || bytes.size() < block_) return write_buffered(offset, bytes);
  const std::size_t head = (block_ - static_cast<std::size_t>(offset % block_)) % block_;
  const std::size_t whole = bytes.size() < head ? 0 : (bytes.size() - head) / block_ * block_;
  if (whole == 0) return write_buffered(offset, bytes);
  if (Status status = write_buffered(offset, bytes.first(head)); !status) return status;

  const std::uint64_t begin = offset + head;
  std::span<const std::byte> blocks = bytes.subspan(head, whole);
  std::shared_ptr<std::byte> copy;
  if (reinterpret_cast<std::uintptr_t>(blocks.data()) % memory_alignment_ != 0) {
    Result<std::shared_ptr<std::byte>> taken = bounce_buffers_->take(begin);
    if (!taken) return std::move(taken).error();
    copy = *std::move(taken);
    std::memcpy(copy.get(), blocks.data(), whole);
    blocks = {copy.get(), whole};
  }
  std::size_t done = 0;
  if (Status status = write_direct(begin, blocks, done); !status) return status;
  copy = nullptr;
  return write_buffered(begin + done, bytes.subspan(head + done));
}

// Cuts a range of the file at multiples of kDirectChunk, and calls write(offset, size) for each chunk. All calls share
// kDirectThreads - 1 helper threads. Each call also uses the caller's thread, so it always advances.
template <class Write>
Status FileWriter::write_chunks(std::uint64_t offset, std::uint64_t size, const Write& write) {
  const std::uint64_t first = offset / kDirectChunk;
  const auto count = static_cast<std::size_t>((offset + size - 1) / kDirectChunk - first + 1);
  unsigned helpers = 0;
  while (helpers + 1 < count && helpers_.fetch_sub(1) > 0) ++helpers;
  if (helpers + 1 < count) helpers_.fetch_add(1);  // no helper was left for the last subtraction
  Status status = os::run_parallel(count, helpers + 1, [&](std::size_t index) {
    const std::uint64_t begin = std::max((first + index) * kDirectChunk, offset);
    const std::uint64_t end = std::min((first + index + 1) * kDirectChunk, offset + size);
    return write(begin, static_cast<std::size_t>(end - begin));
  });
  helpers_.fetch_add(static_cast<int>(helpers));
  return status;
}

Status FileWriter::write_at(std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
  return base::guarded([&]() -> Status {
    if (!direct() || bytes.size() < kMinDirectWrite) return write_buffered(offset, bytes);
    return write_chunks(offset, bytes.size(), [&](std::uint64_t begin, std::size_t size) {
      return write_chunk(begin, bytes.subspan(static_cast<std::size_t>(begin - offset), size));
    });
  });
}

Status FileWriter::copy_in_chunks(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t size) {
  return write_chunks(offset, size, [&](std::uint64_t begin, std::size_t count) -> Status {
    const Result<std::shared_ptr<std::byte>> buffer = bounce_buffers_->take(begin);
    if (!buffer) return buffer.error();
    const std::span<std::byte> bytes(buffer->get(), count);
    if (Status read = os::read_exactly(source, from + (begin - offset), bytes); !read) return read;
    // The buffer is aligned, so write_chunk() takes no second buffer. Otherwise all threads could wait for each other.
    return write_chunk(begin, bytes);
  });
}

// Lets the system copy as much as it can.
Status FileWriter::copy_through_cache(std::uint64_t offset, const Source& source, std::uint64_t from,
                                      std::uint64_t size) {
  const auto* const file = os::RegularFile::of(source);
  bool by_system = file != nullptr && (!local_ || file->file_system() != os::FileSystem::local ||
                                       from % kUsualBlock == offset % kUsualBlock);
  std::shared_ptr<std::byte> buffer;
  while (size != 0) {
    std::size_t count = static_cast<std::size_t>(std::min<std::uint64_t>(size, by_system ? kWritebackBytes : kPiece));
    if (by_system) {
      const Result<os::Lease> lease = file->lease();
      if (!lease) return lease.error();
      const std::ptrdiff_t copied = os::copy_range(lease->get(), from, descriptor(), offset, count);
      if (copied < 0 && errno == EINTR) continue;
      by_system = copied > 0;
      if (!by_system) continue;  // A copy through a buffer works or reports the error.
      count = static_cast<std::size_t>(copied);
      if (Status status = after_writing(count); !status) return status;
    } else {
      if (!buffer) {
        Result<std::shared_ptr<std::byte>> memory = os::allocate(count);
        if (!memory) return std::move(memory).error();
        buffer = *std::move(memory);
      }
      const std::span<std::byte> bytes(buffer.get(), count);
      if (Status status = os::read_exactly(source, from, bytes); !status) return status;
      if (Status status = write_buffered(offset, bytes); !status) return status;
    }
    offset += count, from += count, size -= count;
  }
  return {};
}

Status FileWriter::copy_at(std::uint64_t offset, const Source& source, std::uint64_t from,
                           std::uint64_t size) noexcept {
  return base::guarded([&]() -> Status {
    const Source::Memory memory = source.memory(from, size);
    if (memory.bytes.size() == size) return write_at(offset, memory.bytes);
    if (direct() && size >= kMinDirectWrite) return copy_in_chunks(offset, source, from, size);
    return copy_through_cache(offset, source, from, size);
  });
}

Status FileWriter::finish() {
  direct_.reset();
  // Never retry: after a failed fsync() the system may have dropped the dirty pages, and a second fsync() would
  // succeed.
  if (durability_ != Durability::none && os::sync(descriptor()) != 0)
    return os::system_error(Errc::sync_failed, errno, "cannot make the new file durable", path_);
  // Network file systems report failed writes when any descriptor of the file is closed. Close a duplicate, because the
  // original holds the lock.
  int closed = os::duplicate(descriptor());
  if (closed < 0 && os::file_system_of(descriptor()) != os::FileSystem::local) closed = release();
  if (closed >= 0 && os::close(closed) != 0 && errno != EINTR)
    return os::system_error(Errc::write_failed, errno, "cannot close the new file", path_);
  finished_ = true;
  return {};
}

}  // namespace safetensors::io
