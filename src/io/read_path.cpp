#include "io/read_path.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/guard.h"
#include "io/memory.h"
#include "io/residency.h"
#include "io/system_error.h"

namespace safetensors::io {
namespace {

constexpr std::size_t kPiece = std::size_t{2} << 20;
constexpr std::size_t kRemotePiece = std::size_t{16} << 20;
constexpr std::size_t kWorthDirect = std::size_t{64} << 10;  // below, reading ahead does more good
constexpr double kMostlyCached = 0.9;
constexpr std::size_t kLeastAlignment = 512;

std::uint64_t down(std::uint64_t value, std::uint64_t alignment) noexcept {
  return value / alignment * alignment;
}

std::uint64_t up(std::uint64_t value, std::uint64_t alignment) noexcept {
  return down(value + alignment - 1, alignment);
}

bool is_multiple(const std::byte* address, std::size_t alignment) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

Error failed(int number, std::size_t size, std::uint64_t offset) {
  Error error = system_error(Errc::read_failed, number,
                             "cannot read " + std::to_string(size) + " bytes at byte " + std::to_string(offset));
  error.offset = offset;
  return error;
}

}  // namespace

// The source, its calls counted.
class ReadPath::Counted final : public Source {
 public:
  Counted(const Source& source, ReadCounts& counts) noexcept : source_(source), counts_(counts) {}
  [[nodiscard]] Result<std::uint64_t> size() const noexcept override { return source_.size(); }
  [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset,
                                            std::span<std::byte> destination) const noexcept override {
    ++counts_.calls;
    return source_.read_at(offset, destination);
  }

 private:
  const Source& source_;
  ReadCounts& counts_;
};

Result<std::span<std::byte>> Bounce::memory() noexcept {
  if (!memory_) {
    Result<std::shared_ptr<std::byte>> made = allocate(kBytes, 4096);
    if (!made) return std::move(made).error();
    memory_ = *std::move(made);
  }
  return std::span<std::byte>(memory_.get(), kBytes);
}

ReadPath::ReadPath(const Source& source, Caching caching, std::uint64_t begin, std::uint64_t size,
                   std::uint64_t work) noexcept
    : source_(source), file_(dynamic_cast<const PosixFile*>(&source)), caching_(caching), piece_(kPiece), work_(work) {
  if (file_ == nullptr || size == 0) return;
  if (file_->file_system() == FileSystem::remote) {
    piece_ = kRemotePiece;
    waits_ = true;
    return;
  }
  const Result<Lease> lease = file_->lease();
  if (!lease) return;  // the first read meets the same error
  const bool cached =
      caching_ != Caching::bypass && cached_share(lease->get(), begin, size).value_or(1.0) >= kMostlyCached;
  waits_ = !cached;
  if (waits_ && (caching_ == Caching::keep || caching_ == Caching::bypass)) prepare_direct(lease->get());
}

ReadPath::~ReadPath() {
  if (const int direct = direct_.load(); direct >= 0) (void)::close(direct);
}

void ReadPath::prepare_direct(int descriptor) noexcept {
  directs_ = true;
#ifdef STATX_DIOALIGN
  struct statx status;
  if (::statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) != 0 || (status.stx_mask & STATX_DIOALIGN) == 0)
    return;
  if (status.stx_dio_offset_align == 0 || status.stx_dio_offset_align > 4096 || status.stx_dio_mem_align > 4096) {
    directs_ = false;
    refused_ = EOPNOTSUPP;
    return;
  }
  memory_alignment_ = std::max<std::size_t>(status.stx_dio_mem_align, 1);
  offset_alignment_ = std::max<std::size_t>(status.stx_dio_offset_align, kLeastAlignment);
#else
  (void)descriptor;
#endif
}

// Another description of the same file, for O_DIRECT belongs to the description.
int ReadPath::open_direct() const noexcept {
  if (!directs_ || direct_refused() != 0) return -1;
  if (const int direct = direct_.load(std::memory_order_acquire); direct >= 0) return direct;
  const std::lock_guard lock(mutex_);
  if (const int direct = direct_.load(std::memory_order_relaxed); direct >= 0) return direct;
  const Result<Lease> lease = file_->lease();
  if (!lease) return -1;
  char path[32];
  (void)std::snprintf(path, sizeof path, "/proc/self/fd/%d", lease->get());
  const int direct = ::open(path, O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (direct < 0)
    refused_ = errno;
  else
    direct_.store(direct, std::memory_order_release);
  return direct;
}

void ReadPath::finish(std::uint64_t work) const noexcept {
  if (work_.fetch_sub(work) != work) return;
  const std::lock_guard lock(mutex_);
  if (const int direct = direct_.exchange(-1); direct >= 0) (void)::close(direct);
}

Status ReadPath::read(std::uint64_t offset, std::span<std::byte> destination, ReadCounts& counts,
                      Bounce& bounce) const noexcept {
  const int direct = destination.size() < kWorthDirect ? -1 : open_direct();
  if (wants_direct(direct, offset, destination.size())) return read_direct(direct, offset, destination, counts, bounce);
  return read_buffered(offset, destination, counts);
}

bool ReadPath::wants_direct(int direct, std::uint64_t offset, std::size_t size) const noexcept {
  if (direct < 0) return false;
  if (caching_ == Caching::bypass) return true;
  const Result<Lease> lease = file_->lease();
  return lease && cached_share(lease->get(), offset, size).value_or(1.0) < kMostlyCached;
}

Status ReadPath::read_buffered(std::uint64_t offset, std::span<std::byte> destination,
                               ReadCounts& counts) const noexcept {
  Status status = read_exactly(Counted(source_, counts), offset, destination);
  if (!status) return status;
  counts.buffered += destination.size();
  const bool drop = caching_ == Caching::drop || caching_ == Caching::bypass;
  if (!drop || file_ == nullptr) return {};
  if (const Result<Lease> lease = file_->lease())
    (void)::posix_fadvise(lease->get(), static_cast<off_t>(offset), static_cast<off_t>(destination.size()),
                          POSIX_FADV_DONTNEED);
  return {};
}

// Whole blocks straight to where they go if the device can write there, all else through the bounce.
Status ReadPath::read_direct(int direct, std::uint64_t offset, std::span<std::byte> destination, ReadCounts& counts,
                             Bounce& bounce) const noexcept {
  const auto head = static_cast<std::size_t>(up(offset, offset_alignment_) - offset);
  if (!is_multiple(destination.data() + head, memory_alignment_))
    return read_bounced(direct, offset, destination, counts, bounce);
  if (Status status = read_bounced(direct, offset, destination.first(head), counts, bounce); !status) return status;
  offset += head;
  destination = destination.subspan(head);
  while (destination.size() >= offset_alignment_) {
    const auto whole = static_cast<std::size_t>(down(destination.size(), offset_alignment_));
    std::size_t got = 0;
    if (Status status = direct_call(direct, offset, destination.first(whole), got, counts); !status) return status;
    got = static_cast<std::size_t>(down(got, offset_alignment_));
    if (got == 0) return read_buffered(offset, destination, counts);
    offset += got;
    destination = destination.subspan(got);
  }
  return read_bounced(direct, offset, destination, counts, bounce);
}

Status ReadPath::read_bounced(int direct, std::uint64_t offset, std::span<std::byte> destination, ReadCounts& counts,
                              Bounce& bounce) const noexcept {
  if (destination.empty()) return {};
  const Result<std::span<std::byte>> memory = bounce.memory();
  if (!memory) return memory.error();
  while (!destination.empty()) {
    const std::uint64_t begin = down(offset, offset_alignment_);
    const auto skipped = static_cast<std::size_t>(offset - begin);
    const std::uint64_t wanted = up(skipped + destination.size(), offset_alignment_);
    const std::span<std::byte> part =
        memory->first(static_cast<std::size_t>(std::min<std::uint64_t>(wanted, memory->size())));
    std::size_t got = 0;
    if (Status status = direct_call(direct, begin, part, got, counts); !status) return status;
    // The end of the file, or a refusal: an ordinary read tells which.
    if (got <= skipped) return read_buffered(offset, destination, counts);
    const std::size_t count = std::min(got - skipped, destination.size());
    std::memcpy(destination.data(), part.data() + skipped, count);
    offset += count;
    destination = destination.subspan(count);
  }
  return {};
}

// got: how many bytes came; 0 also when the system does not read like this after all.
Status ReadPath::direct_call(int direct, std::uint64_t offset, std::span<std::byte> aligned, std::size_t& got,
                             ReadCounts& counts) const noexcept {
  got = 0;
  if (direct_refused() != 0) return {};
  ssize_t count = -1;
  do {
    ++counts.calls;
    count = ::pread(direct, aligned.data(), aligned.size(), static_cast<off_t>(offset));
  } while (count < 0 && errno == EINTR);
  if (count >= 0) {
    got = static_cast<std::size_t>(count);
    counts.direct += got;
    return {};
  }
  const int number = errno;
  if (number == EINVAL || number == EOPNOTSUPP) {
    refused_.store(number, std::memory_order_relaxed);
    return {};
  }
  return guarded([&]() -> Status { return failed(number, aligned.size(), offset); });
}

}  // namespace safetensors::io
