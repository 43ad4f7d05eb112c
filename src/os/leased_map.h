// Maps a range of a file for a moment, almost without the danger of SIGBUS.
//
// A read of a map raises SIGBUS if another program truncates the file, or if a page must be read again and the device
// fails. A read lease (fcntl F_SETLEASE) excludes the first: until it ends, the system lets nobody open the file for
// writing or truncate it. It ends the lease of a process that is stopped for 45 seconds
// (/proc/sys/fs/lease-break-time): then only a handler of SIGBUS helps. The second is excluded as far as possible:
// every page of the range is in the page cache when the map is made.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "os/descriptor.h"

namespace safetensors::os {

// Keep it for milliseconds only: meanwhile, another program that opens the file for writing waits. Thread-safe to make.
class LeasedMap {
 public:
  // descriptor: of a file on a local file system. Returns nothing if the system refuses the lease (the file is open for
  // writing, or it belongs to another user), if a byte of the range is not in the page cache or not in the file, or if
  // the system does not tell (before Linux 6.5).
  [[nodiscard]] static std::optional<LeasedMap> make(int descriptor, std::uint64_t offset, std::uint64_t size) noexcept;
  LeasedMap(LeasedMap&&) noexcept = default;
  LeasedMap& operator=(LeasedMap&&) = delete;
  ~LeasedMap();

  // The range. Valid as long as this object lives.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  explicit LeasedMap(Descriptor leased) noexcept : leased_(std::move(leased)) {}

  Descriptor leased_;                     // invalid after a move: then the rest means nothing
  [[maybe_unused]] void* map_ = nullptr;  // some systems have no leases
  [[maybe_unused]] std::size_t map_size_ = 0;
  std::span<const std::byte> bytes_;
};

// Returns the CPU time of this thread, or 0 where no LeasedMap exists. Thread-safe.
[[nodiscard]] std::chrono::nanoseconds thread_time() noexcept;

}  // namespace safetensors::os
