// Takes the lease on an open file of its own, because a lease and its signal belong to the open file and not to the
// descriptor. Then checks size and page cache, and maps whole pages around the range.
#include "os/leased_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

#include "os/file_status.h"
#include "os/memory.h"
#include "os/open.h"
#include "os/residency.h"
#include "os/system.h"

namespace safetensors::os {
namespace {

// When another program asks for the file, the system sends a signal to the holder of the lease. The usual one (SIGIO)
// would end the process. SIGURG is ignored unless a program handles it, and such handlers expect it at any time.
Descriptor lease(int descriptor) noexcept {
  const DescriptorPath path(descriptor);
  Descriptor opened(
      open_at(kWorkingDirectory, path.text, OpenFlags::read | OpenFlags::no_wait | OpenFlags::no_terminal));
  if (!opened.valid() || ::fcntl(opened.get(), F_SETSIG, SIGURG) != 0 ||
      ::fcntl(opened.get(), F_SETLEASE, F_RDLCK) != 0)
    opened.reset();
  return opened;
}

}  // namespace

std::optional<LeasedMap> LeasedMap::make(int descriptor, std::uint64_t offset, std::uint64_t size) noexcept {
  if (size == 0) return std::nullopt;
  LeasedMap made(lease(descriptor));
  FileStatus status;
  if (!made.leased_.valid() || status_of(made.leased_.get(), status) != 0) return std::nullopt;
  const auto file_size = status.identity.size;
  if (offset > file_size || size > file_size - offset) return std::nullopt;
  if (detail::count_cached(made.leased_.get(), offset, size) != 1.0) return std::nullopt;
  const std::uint64_t skipped = offset % page_size();
  const auto map_size = static_cast<std::size_t>(skipped + size);
  if (map_size != skipped + size) return std::nullopt;
  void* const map =
      ::mmap(nullptr, map_size, PROT_READ, MAP_SHARED, made.leased_.get(), static_cast<off_t>(offset - skipped));
  if (map == MAP_FAILED) return std::nullopt;
  made.map_ = map;
  made.map_size_ = map_size;
  made.bytes_ = {static_cast<const std::byte*>(map) + skipped, static_cast<std::size_t>(size)};
  return made;
}

// Ends the lease explicitly: a child that another thread has forked meanwhile holds the same open file.
LeasedMap::~LeasedMap() {
  if (!leased_.valid()) return;
  if (map_ != nullptr) ::munmap(map_, map_size_);
  (void)::fcntl(leased_.get(), F_SETLEASE, F_UNLCK);
}

std::chrono::nanoseconds thread_time() noexcept {
  timespec time{};
  (void)::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace safetensors::os
