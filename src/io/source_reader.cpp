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
#include <utility>

#include "base/error.h"
#include "os/file_status.h"
#include "os/memory.h"
#include "os/residency.h"
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

// Forwards to a source, and counts the calls and the bytes that they return. So bytes before an error count, too.
class SourceReader::CountingSource final : public Source {
 public:
  CountingSource(const Source& source, ReadCounts& counts) noexcept : source_(source), counts_(counts) {}
  [[nodiscard]] Result<std::uint64_t> size() const noexcept override { return source_.size(); }
  [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> destination) const noexcept override {
    ++counts_.calls;
    Result<std::size_t> count = source_.read_at(offset, destination);
    if (count) counts_.buffered += std::min(*count, destination.size());  // a Source may return any number
    return count;
  }

 private:
  const Source& source_;
  ReadCounts& counts_;
};

// Opens the same file again, with O_DIRECT or for the reads of one thread. A duplicate of the descriptor would share
// the flags and the read-ahead, because both belong to the open file and not to the descriptor.
Result<os::Descriptor> SourceReader::open_again(os::OpenFlags flags) const noexcept {
  Result<os::Lease> lease = file_->lease();
  if (!lease) return std::move(lease).error();  // A copy of the error could throw.
  const os::DescriptorPath path(lease->get());
  flags = flags | os::OpenFlags::read | os::OpenFlags::no_wait | os::OpenFlags::no_terminal;
  os::Descriptor opened(os::retry([&] { return os::open_at(os::kWorkingDirectory, path.text, flags, 0); }));
  const int error_number = errno;
  os::FileStatus status;
  const bool same =
      os::DescriptorPath::kLeadsToSameFile ||
      (opened.valid() && os::status_of(opened.get(), status) == 0 && status.identity.same_file(file_->identity()));
  if (opened.valid() && same) return opened;
  return base::guarded([&]() -> Result<os::Descriptor> {
    if (opened.valid()) return base::make_error(Errc::file_changed, "file was replaced after it was opened");
    return os::system_error(Errc::open_failed, error_number, "cannot open");
  });
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
    prepare_remote();
    return;
  }
  const Result<os::Lease> lease = file_->lease();
  if (!lease) return;  // The first read reports the same error.
  waits_ = !is_cached(lease->get(), transfer.begin, transfer.size);
  if (waits_ && transfer.fills_cache) prepare_fill();
  if (waits_ && !transfer.fills_cache) prepare_direct(lease->get());
}

bool SourceReader::is_cached(int descriptor, std::uint64_t offset, std::uint64_t size) const noexcept {
  return !assume_uncached_ && os::cached_share(descriptor, offset, size).value_or(1.0) >= kMinCachedShare;
}

void SourceReader::fill_cache() noexcept {
  tries_direct_ = false;
  refused_ = 0;  // direct reads are not wanted any more
  if (waits_ && !remote()) prepare_fill();
}

// Reads of 1 MiB leave the bytes in the cache of the processor, and the system reads ahead behind them. Measured with 8
// threads and 1 GiB, medians of 12 runs in turn: 0.34 s with a descriptor per thread, 0.39 s with one for all threads
// (0.81 s with reads of 2 MiB), and 0.32 s past the page cache.
void SourceReader::prepare_fill() noexcept {
  if (size_ < kMinFill) return;
  chunk_bytes_ = kFillChunk;
  reads_ahead_ = in_runs_;
}

// Every request to a server has a latency. The first advice doubles the system's read-ahead window, so half as many
// requests read the same bytes. Windows are requested only if reads fill the page cache: without it (direct_io of FUSE)
// the same bytes would be sent twice. Opening has read the start of the file. If the cache lacks the start now, this
// file system does not use the cache.
void SourceReader::prepare_remote() noexcept {
  chunk_bytes_ = kRemoteChunk;
  waits_ = true;
  const Result<os::Lease> lease = file_->lease();
  if (!lease) return;  // The first read reports the same error.
  os::advise_cache(lease->get(), 0, 0, os::CacheAdvice::sequential);
  requests_windows_ = os::cached_share(lease->get(), 0, 1).value_or(1.0) > 0;
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

int SourceReader::direct_descriptor(ReaderThread& thread) const noexcept {
  if (thread.direct_reader == this) return thread.direct.get();
  Result<os::Descriptor> opened = open_again(os::OpenFlags::direct);
  // An error without an errno, such as a changed file, is not about O_DIRECT. The read through the page cache reports
  // it.
  if (!opened) return refused_ = opened.error().os_error == 0 ? EIO : opened.error().os_error, -1;
  thread.direct_reader = this;
  thread.direct = *std::move(opened);
  return thread.direct.get();
}

Status SourceReader::read(std::uint64_t offset, std::span<std::byte> destination, ReadCounts& counts,
                          ReaderThread& thread) const noexcept {
  if (wants_direct(offset, destination.size())) {
    if (const int direct = direct_descriptor(thread); direct >= 0)
      return read_direct(direct, offset, destination, counts, thread);
  }
  return read_buffered(offset, destination, counts, thread);
}

// If most bytes are in gaps, the system must not read ahead: for an eighth of the rows of 1 GiB, it read 300 MiB
// instead of 128 MiB and took 0.2 s instead of 0.12 s. Returns null if the file cannot be opened again. Then the thread
// uses the descriptor of all threads.
std::shared_ptr<const os::RegularFile> SourceReader::reopen() const noexcept {
  Result<os::Descriptor> opened = open_again(os::OpenFlags::none);
  if (!opened) return nullptr;
  if (sparse_) os::advise_cache(opened->get(), 0, 0, os::CacheAdvice::random);
  Result<std::shared_ptr<const os::RegularFile>> file = os::RegularFile::take(*std::move(opened));
  return file ? *std::move(file) : nullptr;
}

const Source& SourceReader::source_of(ReaderThread& thread) const noexcept {
  if (!reads_ahead_) return source_;
  if (thread.reader != this) {
    thread.own = descriptors_left_.fetch_sub(1) > 0 ? reopen() : nullptr;
    thread.reader = this;
  }
  return thread.own ? static_cast<const Source&>(*thread.own) : source_;
}

// Decides per read, because other processes and earlier reads fill the page cache while the transfer runs.
bool SourceReader::wants_direct(std::uint64_t offset, std::size_t size) const noexcept {
  if (!tries_direct_ || size < kMinDirectRead || direct_refused() != 0) return false;
  const Result<os::Lease> lease = file_->lease();
  return lease && !is_cached(lease->get(), offset, size);
}

Status SourceReader::read_buffered(std::uint64_t offset, std::span<std::byte> destination, ReadCounts& counts,
                                   ReaderThread& thread) const noexcept {
  if (requests_windows_) request_windows(offset, destination.size());
  return os::read_exactly(CountingSource(source_of(thread), counts), offset, destination);
}

// Reads whole blocks straight into the destination if its alignment allows that. Reads the unaligned head and tail, or
// everything, through the bounce buffer.
Status SourceReader::read_direct(int direct, std::uint64_t offset, std::span<std::byte> destination, ReadCounts& counts,
                                 ReaderThread& thread) const noexcept {
  const auto head = static_cast<std::size_t>(round_up(offset, offset_alignment_) - offset);
  if (reinterpret_cast<std::uintptr_t>(destination.data() + head) % memory_alignment_ != 0)
    return read_bounced(direct, offset, destination, counts, thread);
  if (Status status = read_bounced(direct, offset, destination.first(head), counts, thread); !status) return status;
  offset += head;
  destination = destination.subspan(head);
  while (destination.size() >= offset_alignment_) {
    const auto whole = static_cast<std::size_t>(round_down(destination.size(), offset_alignment_));
    std::size_t bytes_read = 0;
    if (Status status = direct_call(direct, offset, destination.first(whole), bytes_read, counts); !status)
      return status;
    bytes_read = static_cast<std::size_t>(round_down(bytes_read, offset_alignment_));
    // The end of the file, or a refusal. A read through the page cache tells them apart.
    if (bytes_read == 0) return read_buffered(offset, destination, counts, thread);
    offset += bytes_read;
    destination = destination.subspan(bytes_read);
  }
  return read_bounced(direct, offset, destination, counts, thread);
}

// Reads the blocks around the range into the bounce buffer, and copies the range out of it. A long range needs a buffer
// in a huge page, but the pieces stay short, so that the copy finds them in the cache of the processor.
Status SourceReader::read_bounced(int direct, std::uint64_t offset, std::span<std::byte> destination,
                                  ReadCounts& counts, ReaderThread& thread) const noexcept {
  if (destination.empty()) return {};
  constexpr std::size_t kPiece = BounceBuffer::kBytes;
  Result<std::span<std::byte>> memory =
      thread.bounce.memory(destination.size() < kPiece / 2 ? kPiece : BounceBuffer::kHugeBytes);
  if (!memory) return std::move(memory).error();  // A copy of the error could throw.
  while (!destination.empty()) {
    const std::uint64_t begin = round_down(offset, offset_alignment_);
    const auto skipped = static_cast<std::size_t>(offset - begin);
    const std::uint64_t wanted = round_up(skipped + destination.size(), offset_alignment_);
    const std::span<std::byte> blocks =
        memory->first(static_cast<std::size_t>(std::min<std::uint64_t>(wanted, kPiece)));
    std::size_t bytes_read = 0;
    if (Status status = direct_call(direct, begin, blocks, bytes_read, counts); !status) return status;
    // The end of the file, or a refusal, as in read_direct().
    if (bytes_read <= skipped) return read_buffered(offset, destination, counts, thread);
    const std::size_t count = std::min(bytes_read - skipped, destination.size());
    std::memcpy(destination.data(), blocks.data() + skipped, count);
    offset += count;
    destination = destination.subspan(count);
  }
  return {};
}

// Makes one direct read. bytes_read: 0 at the end of the file, and if the system refuses direct reads after all.
Status SourceReader::direct_call(int direct, std::uint64_t offset, std::span<std::byte> aligned,
                                 std::size_t& bytes_read, ReadCounts& counts) const noexcept {
  bytes_read = 0;
  if (direct_refused() != 0) return {};
  const std::ptrdiff_t count = os::retry([&] {
    ++counts.calls;
    return os::read_at(direct, aligned.data(), aligned.size(), offset);
  });
  if (count >= 0) {
    bytes_read = static_cast<std::size_t>(count);
    counts.direct += bytes_read;
    return {};
  }
  const int error_number = errno;
  if (error_number == EINVAL || os::is_unsupported(error_number)) {
    refused_.store(error_number, std::memory_order_relaxed);
    return {};
  }
  return base::guarded([&]() -> Status { return os::read_error(error_number, aligned.size(), offset); });
}

}  // namespace safetensors::io
