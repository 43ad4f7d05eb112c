// Reads one Source and chooses between the page cache and O_DIRECT for each read.
//
// O_DIRECT reads a fast disk at its full rate, but it would read cached bytes from the disk again. So each large read
// first asks for the cached share of its range. Blocks that are aligned in the file and in memory are read straight
// into the destination, all others through a bounce buffer. After the first refusal by the system, all reads use the
// page cache. To fill the page cache, each thread opens the file again: the system reads ahead per open file, and the
// mixed reads of several threads would look like random reads to it.
#include "io/source_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>

#include "os/descriptor.h"
#include "os/file_status.h"
#include "os/memory.h"
#include "os/open.h"
#include "os/residency.h"
#include "os/system.h"
#include "os/system_error.h"

namespace safetensors::io {
namespace {

// In bytes.
constexpr std::size_t kLocalChunk = std::size_t{2} << 20;
constexpr std::uint64_t kMinCallerChunk = 4096;
constexpr std::uint64_t kMaxCallerChunk = std::uint64_t{1} << 30;
constexpr std::uint64_t kCallerChunkUnit = 64;
constexpr std::size_t kFillChunk = std::size_t{1} << 20;
constexpr std::uint64_t kMinFill = std::uint64_t{16} << 20;  // for less, threads need no descriptors of their own
constexpr int kMaxDescriptors = 32;                          // of threads that fill the cache from one file
constexpr std::size_t kRemoteChunk = std::size_t{16} << 20;
constexpr std::size_t kMinDirectRead = std::size_t{64} << 10;  // smaller reads gain more from the system's read-ahead
constexpr std::size_t kRemoteWindow = std::size_t{256} << 10;  // twice the system's usual read-ahead
constexpr std::size_t kWindowsAhead = 4;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kMinAlignment = 512;
constexpr std::size_t kMaxAlignment = 4096;
constexpr double kMinCachedShare = 0.9;  // a range counts as cached from this share on

std::uint64_t round_down(std::uint64_t value, std::uint64_t alignment) noexcept {
  return value / alignment * alignment;
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t alignment) noexcept {
  return round_down(value + alignment - 1, alignment);
}

// Whole elements of every dtype fit into such a chunk.
std::size_t caller_chunk(const Source& source) noexcept {
  const std::uint64_t wanted = source.request_bytes();
  if (wanted == 0) return kLocalChunk;
  return static_cast<std::size_t>(std::clamp(round_down(wanted, kCallerChunkUnit), kMinCallerChunk, kMaxCallerChunk));
}

}  // namespace

// Opens the same file again, with O_DIRECT or to fill the cache. A duplicate of the descriptor would share the flags
// and the read-ahead, because both belong to the open file and not to the descriptor. Returns 0, or an error number,
// which is EIO for an error without one.
//
// If most bytes are in gaps, the system must not read ahead: for an eighth of the rows of 1 GiB, it read 300 MiB
// instead of 128 MiB and took 0.2 s instead of 0.12 s.
int SourceReader::open_again(std::shared_ptr<const os::RegularFile>& own) const noexcept {
  const Result<os::Lease> lease = file_->lease();
  if (!lease) return lease.error().os_error == 0 ? EIO : lease.error().os_error;
  const os::DescriptorPath path(lease->get());
  const os::OpenFlags flags = os::OpenFlags::read | os::OpenFlags::no_wait | os::OpenFlags::no_terminal |
                              (tries_direct_ ? os::OpenFlags::direct : os::OpenFlags::none);
  os::Descriptor opened(os::retry([&] { return os::open_at(os::kWorkingDirectory, path.text, flags, 0); }));
  if (!opened.valid()) return errno;
  if (sparse_) os::advise_cache(opened.get(), 0, 0, os::CacheAdvice::random);
  Result<std::shared_ptr<const os::RegularFile>> file = os::RegularFile::take(std::move(opened));
  if (!file || !(*file)->identity().same_file(file_->identity())) return EIO;
  own = *std::move(file);
  return 0;
}

Result<std::span<std::byte>> BounceBuffer::memory(std::size_t size) noexcept {
  if (size_ < size) {
    memory_.reset();
    size_ = 0;
    Result<std::shared_ptr<std::byte>> made = os::allocate(size, 4096);
    if (!made) return std::move(made).error();
    memory_ = *std::move(made);
    size_ = size;
  }
  return std::span<std::byte>(memory_.get(), size);
}

SourceReader::SourceReader(const Source& source, const Transfer& transfer) noexcept
    : source_(source),
      file_(os::RegularFile::of(source)),
      assume_uncached_(transfer.assume_uncached),
      size_(transfer.size),
      chunk_bytes_(caller_chunk(source)),
      in_runs_(transfer.in_runs),
      sparse_(transfer.sparse),
      descriptors_left_(kMaxDescriptors) {
  if (file_ == nullptr || transfer.size == 0) return;
  if (remote()) {
    chunk_bytes_ = kRemoteChunk;
    waits_ = true;
  }
  const Result<os::Lease> lease = file_->lease();
  if (!lease) return;  // The first read reports the same error.
  if (remote()) {
    prepare_remote(lease->get());
    return;
  }
  waits_ = !is_cached(lease->get(), transfer.begin, transfer.size);
  if (waits_) prepare_direct(lease->get());
}

bool SourceReader::is_cached(int descriptor, std::uint64_t offset, std::uint64_t size) const noexcept {
  return !assume_uncached_ && os::cached_share(descriptor, offset, size).value_or(1.0) >= kMinCachedShare;
}

// Reads of 1 MiB leave the bytes in the cache of the processor, and the system reads ahead behind them. Measured with 8
// threads and 1 GiB, medians of 12 runs in turn: 0.34 s with a descriptor per thread, 0.39 s with one for all threads
// (0.81 s with reads of 2 MiB), and 0.32 s past the page cache.
void SourceReader::fill_cache() noexcept {
  tries_direct_ = false;
  refused_ = 0;  // direct reads are not wanted any more
  if (!waits_ || remote() || size_ < kMinFill) return;
  chunk_bytes_ = kFillChunk;
  reads_ahead_ = in_runs_;
}

// Every request to a server has a latency. The first advice doubles the system's read-ahead window, so half as many
// requests read the same bytes. Windows are requested only if reads fill the page cache: without it (direct_io of FUSE)
// the same bytes would be sent twice. Opening has read the start of the file. If the cache lacks the start now, this
// file system does not use the cache.
void SourceReader::prepare_remote(int descriptor) noexcept {
  os::advise_cache(descriptor, 0, 0, os::CacheAdvice::sequential);
  requests_windows_ = os::cached_share(descriptor, 0, 1).value_or(1.0) > 0;
}

// Asks the system for all windows of a range before they are read, so that their requests overlap.
//
// A small read gets whole windows. The system reads ahead only after reads without gaps. Small tensors and slices that
// are read one by one leave gaps, so each would cost a request. A page fault in a map reads as much. If the window
// before is cached, the reads go forward through the file, and the next windows are requested, too.
void SourceReader::request_windows(std::uint64_t offset, std::size_t size) const noexcept {
  const Result<os::Lease> lease = file_->lease();
  if (!lease) return;                               // The read reports the same error.
  std::uint64_t begin = round_down(offset, kPage);  // a window that cuts a page would leave it to a request of its own
  std::uint64_t end = offset + size;
  if (size < kRemoteWindow) {
    begin = round_down(offset, kRemoteWindow);
    end = round_up(end, kRemoteWindow);
    if (begin != 0 &&
        os::cached_share(lease->get(), begin - kRemoteWindow, kRemoteWindow).value_or(0) >= kMinCachedShare)
      end += kWindowsAhead * kRemoteWindow;
  }
  for (; begin < end; begin += kRemoteWindow)
    os::advise_cache(lease->get(), begin, std::min<std::uint64_t>(kRemoteWindow, end - begin),
                     os::CacheAdvice::will_need);
}

// If the system does not tell the alignment, the defaults (4096) stay and the first direct read decides.
void SourceReader::prepare_direct(int descriptor) noexcept {
  tries_direct_ = true;
  os::DirectAlignment alignment;
  if (os::direct_alignment(descriptor, alignment) != 0 || !alignment.known) return;
  if (alignment.offset == 0 || alignment.offset > kMaxAlignment || alignment.memory > kMaxAlignment) {
    tries_direct_ = false;
    refused_ = EOPNOTSUPP;
    return;
  }
  memory_alignment_ = std::max<std::size_t>(alignment.memory, 1);
  offset_alignment_ = std::max<std::size_t>(alignment.offset, kMinAlignment);
}

// Opens the file for this thread if its last reads were of another one. Returns false if it cannot be opened again.
// Then the thread reads through the page cache, with the descriptor of all threads. The first such read reports an
// error that is not about O_DIRECT, such as a changed file.
bool SourceReader::has_own_file(ReaderThread& thread) const noexcept {
  if (thread.reader != this) {
    thread.reader = this;
    thread.own = nullptr;
    if (!tries_direct_ && descriptors_left_.fetch_sub(1) <= 0) return false;
    const int error_number = open_again(thread.own);
    if (error_number != 0 && tries_direct_) refused_ = error_number;
  }
  return thread.own != nullptr;
}

Status SourceReader::read(std::uint64_t offset, std::span<std::byte> destination, ReaderThread& thread) const noexcept {
  const bool direct = wants_direct(offset, destination.size()) && has_own_file(thread);
  return direct ? read_direct(offset, destination, thread) : read_buffered(offset, destination, thread);
}

// Decides per read, because other processes and earlier reads fill the page cache while the transfer runs.
bool SourceReader::wants_direct(std::uint64_t offset, std::size_t size) const noexcept {
  if (!tries_direct_ || size < kMinDirectRead || direct_refused() != 0) return false;
  const Result<os::Lease> lease = file_->lease();
  return lease && !is_cached(lease->get(), offset, size);
}

Status SourceReader::read_buffered(std::uint64_t offset, std::span<std::byte> destination,
                                   ReaderThread& thread) const noexcept {
  if (requests_windows_) request_windows(offset, destination.size());
  const Source& source = reads_ahead_ && has_own_file(thread) ? *thread.own : source_;
  const auto counted = [&](std::size_t bytes) {
    ++thread.counts.calls;
    thread.counts.buffered += bytes;
  };
  return os::read_exactly(source, offset, destination, nullptr, std::ref(counted));
}

// Reads whole blocks straight into the destination if its alignment allows that. Reads the unaligned head and tail, or
// everything, through the bounce buffer.
Status SourceReader::read_direct(std::uint64_t offset, std::span<std::byte> destination,
                                 ReaderThread& thread) const noexcept {
  const auto head = static_cast<std::size_t>(round_up(offset, offset_alignment_) - offset);
  if (reinterpret_cast<std::uintptr_t>(destination.data() + head) % memory_alignment_ != 0)
    return read_bounced(offset, destination, thread);
  if (Status status = read_bounced(offset, destination.first(head), thread); !status) return status;
  offset += head;
  destination = destination.subspan(head);
  while (destination.size() >= offset_alignment_) {
    const auto whole = static_cast<std::size_t>(round_down(destination.size(), offset_alignment_));
    Result<std::size_t> bytes_read = direct_call(offset, destination.first(whole), thread);
    if (!bytes_read) return std::move(bytes_read).error();  // A copy of the error could throw.
    const auto count = static_cast<std::size_t>(round_down(*bytes_read, offset_alignment_));
    // The end of the file, or a refusal. A read through the page cache tells them apart.
    if (count == 0) return read_buffered(offset, destination, thread);
    offset += count;
    destination = destination.subspan(count);
  }
  return read_bounced(offset, destination, thread);
}

// Reads the blocks around the range into the bounce buffer, and copies the range out of it. A long range needs a buffer
// in a huge page, but the pieces stay short, so that the copy finds them in the cache of the processor.
Status SourceReader::read_bounced(std::uint64_t offset, std::span<std::byte> destination,
                                  ReaderThread& thread) const noexcept {
  if (destination.empty()) return {};
  constexpr std::size_t kPiece = BounceBuffer::kBytes;
  Result<std::span<std::byte>> memory =
      thread.bounce.memory(destination.size() < kPiece / 2 ? kPiece : BounceBuffer::kHugeBytes);
  if (!memory) return std::move(memory).error();
  while (!destination.empty()) {
    const std::uint64_t begin = round_down(offset, offset_alignment_);
    const auto skipped = static_cast<std::size_t>(offset - begin);
    const std::uint64_t wanted = round_up(skipped + destination.size(), offset_alignment_);
    const std::span<std::byte> blocks =
        memory->first(static_cast<std::size_t>(std::min<std::uint64_t>(wanted, kPiece)));
    Result<std::size_t> bytes_read = direct_call(begin, blocks, thread);
    if (!bytes_read) return std::move(bytes_read).error();
    // The end of the file, or a refusal, as in read_direct().
    if (*bytes_read <= skipped) return read_buffered(offset, destination, thread);
    const std::size_t count = std::min(*bytes_read - skipped, destination.size());
    std::memcpy(destination.data(), blocks.data() + skipped, count);
    offset += count;
    destination = destination.subspan(count);
  }
  return {};
}

// Makes one direct read. Returns 0 at the end of the file, and if the system refuses direct reads after all.
Result<std::size_t> SourceReader::direct_call(std::uint64_t offset, std::span<std::byte> blocks,
                                              ReaderThread& thread) const noexcept {
  if (direct_refused() != 0) return std::size_t{0};
  ++thread.counts.calls;
  Result<std::size_t> count = thread.own->read_at(offset, blocks);
  if (count) {
    thread.counts.direct += *count;
  } else if (const int error_number = count.error().os_error;
             error_number == EINVAL || os::is_unsupported(error_number)) {
    refused_ = error_number;
    return std::size_t{0};
  }
  return count;
}

}  // namespace safetensors::io
