// Estimates the cached share of a range of a file.
//
// cachestat() (Linux 6.5) counts pages exactly. Older systems get a few reads of one byte with RWF_NOWAIT, which fail
// if the page is not cached. On overlayfs, as in a container, the pages belong to a file of another file system:
// cachestat() counts none, and RWF_NOWAIT is refused. There, mincore() counts the pages of a map. It is the last
// choice: since Linux 5.2 it calls all pages of a file cached that the user neither owns nor may write. A range over 32
// MiB is sampled at 32 offsets, so that the cost does not grow with the file.
#include "os/residency.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

#include "os/memory.h"
#include "os/process.h"

namespace safetensors::os {
namespace {

constexpr std::uint64_t kSampleBytes = 1 << 20;
constexpr std::uint64_t kSamples = 32;  // per large range
constexpr std::uint64_t kProbes = 4;    // per sample
constexpr int kNoWait = 8;              // RWF_NOWAIT
constexpr long kCachestat = 451;        // on every architecture; older C libraries have no name for it

// The structs of <linux/mman.h> since Linux 6.5.
struct CachestatRange {
  std::uint64_t offset;
  std::uint64_t length;
};
struct Cachestat {
  std::uint64_t cached;
  std::uint64_t dirty;
  std::uint64_t writeback;
  std::uint64_t evicted;
  std::uint64_t recently_evicted;
};

constexpr int kOverlay = 0x794C7630;  // OVERLAYFS_SUPER_MAGIC of <linux/magic.h>

bool on_overlay(int descriptor) noexcept {
  struct statfs status;
  return ::fstatfs(descriptor, &status) == 0 && status.f_type == kOverlay;
}

std::optional<double> count_mapped(int descriptor, std::uint64_t offset, std::uint64_t size) noexcept {
  const std::size_t page = page_size();
  const std::uint64_t begin = offset / page * page;
  const auto mapped = static_cast<std::size_t>(offset + size - begin);
  void* const map = ::mmap(nullptr, mapped, PROT_READ, MAP_SHARED, descriptor, static_cast<off_t>(begin));
  if (map == MAP_FAILED) return std::nullopt;
  std::array<unsigned char, 1024> present{};
  std::ptrdiff_t cached = 0;
  bool told = true;
  const std::size_t pages = (mapped + page - 1) / page;
  for (std::size_t i = 0; told && i < pages; i += present.size()) {
    const std::size_t count = std::min(present.size(), pages - i);
    told = ::mincore(static_cast<std::byte*>(map) + i * page, count * page, present.data()) == 0;
    cached += std::count_if(present.begin(), present.begin() + static_cast<std::ptrdiff_t>(count),
                            [](unsigned char is) { return (is & 1U) != 0; });
  }
  ::munmap(map, mapped);
  if (!told) return std::nullopt;
  return static_cast<double>(cached) / static_cast<double>(pages);
}

std::optional<double> ask(int descriptor, std::uint64_t offset, std::uint64_t size) noexcept {
  if (const std::optional<double> counted = detail::count_cached(descriptor, offset, size)) return counted;
  return detail::probe_cached(descriptor, offset, size);
}

}  // namespace

namespace detail {

std::optional<double> count_cached(int descriptor, std::uint64_t offset, std::uint64_t size) noexcept {
  if (size == 0) return 1.0;
  CachestatRange range{offset, size};
  Cachestat found{};
  const bool counts = ::syscall(kCachestat, descriptor, &range, &found, 0) == 0;
  if ((!counts || found.cached == 0) && on_overlay(descriptor)) return count_mapped(descriptor, offset, size);
  if (!counts) return std::nullopt;
  const auto page = std::uint64_t{page_size()};
  const std::uint64_t pages = (offset + size - 1) / page - offset / page + 1;
  return std::min(1.0, static_cast<double>(found.cached) / static_cast<double>(pages));
}

// A probe of a page that is not cached makes the system read that page. So probes go to random offsets: a second call
// at the same offsets would find the pages that the first call caused.
std::optional<double> probe_cached(int descriptor, std::uint64_t offset, std::uint64_t size) noexcept {
  if (size == 0) return 1.0;
  const std::uint64_t probes = std::min(size, kProbes);
  std::uint64_t cached = 0;
  for (std::uint64_t i = 0; i < probes; ++i) {
    std::byte byte{};
    const iovec buffer{&byte, 1};
    const std::uint64_t probe = offset + size / probes * i + random_bits() % (size / probes);
    // The offset is in two halves for machines with 32 bits. musl before 1.2.5 has no preadv2().
    const long count = ::syscall(SYS_preadv2, descriptor, &buffer, 1, static_cast<long>(probe),
                                 static_cast<long>(probe >> 32), kNoWait);
    if (count == 1)
      ++cached;
    else if (count < 0 && errno != EAGAIN)
      return std::nullopt;
  }
  return static_cast<double>(cached) / static_cast<double>(probes);
}

}  // namespace detail

void advise_cache(int descriptor, std::uint64_t offset, std::uint64_t size, CacheAdvice advice) noexcept {
  constexpr int kNative[] = {POSIX_FADV_SEQUENTIAL, POSIX_FADV_RANDOM, POSIX_FADV_WILLNEED};
  (void)::posix_fadvise(descriptor, static_cast<off_t>(offset), static_cast<off_t>(size),
                        kNative[static_cast<std::size_t>(advice)]);
}

std::optional<double> cached_share(int descriptor, std::uint64_t offset, std::uint64_t size) noexcept {
  if (size <= kSamples * kSampleBytes) return ask(descriptor, offset, size);
  double sum = 0;
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const std::optional<double> share =
        ask(descriptor, offset + (size - kSampleBytes) / (kSamples - 1) * i, kSampleBytes);
    if (!share) return std::nullopt;
    sum += *share;
  }
  return sum / static_cast<double>(kSamples);
}

}  // namespace safetensors::os
