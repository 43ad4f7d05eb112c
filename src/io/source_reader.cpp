#include "io/source_reader.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "os/memory.h"
#include "os/residency.h"
#include "os/system_error.h"

namespace safetensors::io {
namespace {

constexpr std::size_t kPiece = std::size_t{2} << 20;
constexpr std::size_t kRemotePiece = std::size_t{16} << 20;
constexpr std::size_t kWorthDirect = std::size_t{64} << 10;  // below, reading ahead does more good
constexpr double kMostlyCached = 0.9;
constexpr std::size_t kLeastAlignment = 512;
constexpr std::size_t kMostAlignment = 4096;

std::uint64_t down(std::uint64_t value, std::uint64_t alignment) noexcept {
  return value / alignment * alignment;
}

std::uint64_t up(std::uint64_t value, std::uint64_t alignment) noexcept {
  return down(value + alignment - 1, alignment);
}

bool is_multiple(const std::byte* address, std::size_t alignment) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

}  // namespace

// The source, its calls counted.
class SourceReader::Counted final : public Source {
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

// Another description of the same file, for O_DIRECT belongs to the description.
class SourceReader::OpenDirect final : public os::Opener {
 public:
  OpenDirect(const os::PosixFile& file, os::System& system) noexcept : file_(file), system_(system) {}
  [[nodiscard]] Result<os::Descriptor> open() const noexcept override {
    Result<os::Lease> lease = file_.lease();
    if (!lease) return std::move(lease).error();  // a copy could throw
    char path[32];
    (void)std::snprintf(path, sizeof path, "/proc/self/fd/%d", lease->get());
    os::Descriptor direct;
    do {
      direct = os::Descriptor(
          system_.open_at(AT_FDCWD, path, O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode_t{0}));
    } while (!direct.valid() && errno == EINTR);
    if (direct.valid()) return direct;
    const int number = errno;
    return base::guarded(
        [&]() -> Result<os::Descriptor> { return os::system_error(Errc::open_failed, number, "cannot open"); });
  }

 private:
  const os::PosixFile& file_;
  os::System& system_;
};

Result<std::span<std::byte>> BounceBuffer::memory() noexcept {
  if (!memory_) {
    Result<std::shared_ptr<std::byte>> made = os::allocate(kBytes, 4096);
    if (!made) return std::move(made).error();
    memory_ = *std::move(made);
  }
  return std::span<std::byte>(memory_.get(), kBytes);
}

SourceReader::SourceReader(const Source& source, const Transfer& transfer, os::PoolSlot directs,
                           os::System& system) noexcept
    : source_(source),
      file_(dynamic_cast<const os::PosixFile*>(&source)),
      system_(system),
      directs_slot_(std::move(directs)),
      caching_(transfer.caching),
      piece_(kPiece),
      work_(transfer.work) {
  if (file_ == nullptr || transfer.size == 0) return;
  if (remote()) {
    piece_ = kRemotePiece;
    waits_ = true;
    if (caching_ == Caching::bypass) refused_ = EOPNOTSUPP;
    return;
  }
  const Result<os::Lease> lease = file_->lease();
  if (!lease) return;  // the first read meets the same error
  const bool cached = caching_ != Caching::bypass &&
                      os::cached_share(lease->get(), transfer.begin, transfer.size).value_or(1.0) >= kMostlyCached;
  waits_ = !cached;
  if (waits_ && (caching_ == Caching::keep || caching_ == Caching::bypass)) prepare_direct(lease->get());
}

SourceReader::~SourceReader() {
  if (directs_slot_.pool) directs_slot_.pool->close(directs_slot_.slot);
}

void SourceReader::prepare_direct(int descriptor) noexcept {
  directs_ = true;
  os::DirectAlignment alignment;
  if (system_.direct_alignment(descriptor, alignment) != 0 || !alignment.known) return;
  if (alignment.offset == 0 || alignment.offset > kMostAlignment || alignment.memory > kMostAlignment) {
    directs_ = false;
    refused_ = EOPNOTSUPP;
    return;
  }
  memory_alignment_ = std::max<std::size_t>(alignment.memory, 1);
  offset_alignment_ = std::max<std::size_t>(alignment.offset, kLeastAlignment);
}

std::optional<os::Lease> SourceReader::open_direct() const noexcept {
  Result<os::Lease> lease = directs_slot_.pool->acquire(directs_slot_.slot, OpenDirect(*file_, system_));
  if (lease) return *std::move(lease);
  // What is no refusal of the system's, such as a file that changed, an ordinary read meets, too.
  refused_ = lease.error().os_error == 0 ? EIO : lease.error().os_error;
  return std::nullopt;
}

void SourceReader::finish(std::uint64_t work) const noexcept {
  if (work_.fetch_sub(work) == work && directs_slot_.pool) directs_slot_.pool->close(directs_slot_.slot);
}

Status SourceReader::read(std::uint64_t offset, std::span<std::byte> destination, ReadCounts& counts,
                          BounceBuffer& bounce) const noexcept {
  if (wants_direct(offset, destination.size())) {
    if (const std::optional<os::Lease> direct = open_direct())
      return read_direct(direct->get(), offset, destination, counts, bounce);
  }
  return read_buffered(offset, destination, counts);
}

bool SourceReader::wants_direct(std::uint64_t offset, std::size_t size) const noexcept {
  if (!directs_ || size < kWorthDirect || direct_refused() != 0) return false;
  if (caching_ == Caching::bypass) return true;
  const Result<os::Lease> lease = file_->lease();
  return lease && os::cached_share(lease->get(), offset, size).value_or(1.0) < kMostlyCached;
}

Status SourceReader::read_buffered(std::uint64_t offset, std::span<std::byte> destination,
                                   ReadCounts& counts) const noexcept {
  Status status = os::read_exactly(Counted(source_, counts), offset, destination);
  if (!status) return status;
  counts.buffered += destination.size();
  const bool drop = caching_ == Caching::drop || caching_ == Caching::bypass;
  if (!drop || file_ == nullptr) return {};
  if (const Result<os::Lease> lease = file_->lease())
    (void)::posix_fadvise(lease->get(), static_cast<off_t>(offset), static_cast<off_t>(destination.size()),
                          POSIX_FADV_DONTNEED);
  return {};
}

// Whole blocks straight to where they go if the device can write there, all else through the bounce.
Status SourceReader::read_direct(int direct, std::uint64_t offset, std::span<std::byte> destination, ReadCounts& counts,
                                 BounceBuffer& bounce) const noexcept {
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

Status SourceReader::read_bounced(int direct, std::uint64_t offset, std::span<std::byte> destination,
                                  ReadCounts& counts, BounceBuffer& bounce) const noexcept {
  if (destination.empty()) return {};
  Result<std::span<std::byte>> memory = bounce.memory();
  if (!memory) return std::move(memory).error();  // a copy could throw
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
Status SourceReader::direct_call(int direct, std::uint64_t offset, std::span<std::byte> aligned, std::size_t& got,
                                 ReadCounts& counts) const noexcept {
  got = 0;
  if (direct_refused() != 0) return {};
  ssize_t count = -1;
  do {
    ++counts.calls;
    count = system_.read_at(direct, aligned.data(), aligned.size(), offset);
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
  return base::guarded([&]() -> Status { return os::read_error(number, aligned.size(), offset); });
}

}  // namespace safetensors::io
