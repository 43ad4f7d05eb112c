// A regular file, open for reading at offsets and for maps.
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

#include "base/cancellation.h"
#include "os/descriptor.h"
#include "os/descriptor_pool.h"
#include "os/file_status.h"
#include "os/file_system.h"
#include "os/memory.h"

namespace safetensors::os {

// Mapped bytes of a file. They stay mapped until the last copy of owner is gone.
struct Mapping {
  std::span<std::byte> bytes;  // a write to a MapMode::shared mapping raises SIGSEGV
  std::shared_ptr<const void> owner;
};

// A slot for one file only. Without a pool the file keeps its descriptor open.
struct PoolSlot {
  std::shared_ptr<DescriptorPool> pool = nullptr;
  std::size_t slot = 0;
};

// Thread-safe.
class RegularFile final : public Source {
 public:
  // Never waits for a FIFO or a device, and never opens a device. With a slot, the pool may close the descriptor and
  // open it again. It uses the same absolute path, even if the working directory changes, and accepts only the same
  // unchanged file. Errors, with path and os_error: invalid_argument (a path with a zero byte), open_failed,
  // not_regular_file.
  [[nodiscard]] static Result<std::shared_ptr<const RegularFile>> open(std::string_view path,
                                                                       PoolSlot slot = {}) noexcept;
  // Returns a file that the first lease() opens, so the system is not asked now. The path becomes absolute now. slot
  // must have a pool. size: the expected size of the file in bytes. Error: invalid_argument (a path with a zero byte).
  [[nodiscard]] static Result<std::shared_ptr<const RegularFile>> open_later(std::string_view path, std::uint64_t size,
                                                                             PoolSlot slot) noexcept;
  // Makes a descriptor of its own: see duplicate_for_reading(). Errors: those of open(), without a path.
  [[nodiscard]] static Result<std::shared_ptr<const RegularFile>> from_fd(int descriptor) noexcept;
  // Takes a descriptor that is open for reading. Errors: those of open(), without a path.
  [[nodiscard]] static Result<std::shared_ptr<const RegularFile>> take(Descriptor descriptor) noexcept;
  ~RegularFile() override;

  // Returns the source as a RegularFile, or nullptr if it is another one.
  [[nodiscard]] static const RegularFile* of(const Source& source) noexcept {
    return source.safetensors_regular_file();
  }

  // The size at the time of open(), or the expected size of open_later(), in bytes.
  [[nodiscard]] Result<std::uint64_t> size() const noexcept override { return size_; }
  [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset,
                                            std::span<std::byte> destination) const noexcept override;

  // Returns the descriptor. It is valid while the Lease lives, and the Lease must not outlive the file. Errors, only
  // with a pool and without a path: open_failed, file_changed (device, inode, size or change time differ from those at
  // open()). After open_later() also: not_regular_file, out_of_memory, and file_changed for another size than expected.
  [[nodiscard]] Result<Lease> lease() const noexcept;

  // Maps a range of the file. A range without bytes gives an empty span and no owner. The map stays valid after the
  // descriptor is closed. Errors: map_failed (with os_error), file_truncated if the range ends after the current end of
  // the file, and those of lease().
  [[nodiscard]] Result<Mapping> map(std::uint64_t offset, std::uint64_t size, MapMode mode) const noexcept;

  // Both are from the time when the file was opened. After open_later(), they open the file if nothing did before. If
  // that fails, the identity is empty, the file system is local, and the next read reports the error.
  [[nodiscard]] const FileIdentity& identity() const noexcept { return facts().identity; }
  [[nodiscard]] FileSystem file_system() const noexcept { return facts().file_system; }

 private:
  [[nodiscard]] const RegularFile* safetensors_regular_file() const noexcept override { return this; }

  class OpenLater;
  // The facts that an open descriptor tells about the file.
  struct Facts {
    FileIdentity identity;
    FileSystem file_system = FileSystem::local;
  };
  RegularFile() noexcept = default;
  [[nodiscard]] static Result<Facts> inspect(int descriptor, std::string_view path);
  Status learn(int descriptor, std::string_view path);
  [[nodiscard]] const Facts& facts() const noexcept;
  void advise_cold(int descriptor, std::uint64_t offset, std::span<std::byte> pages) const noexcept;

  Descriptor descriptor_;  // invalid with a pool
  PoolSlot slot_;
  std::string path_;  // with a pool: the absolute path to open again
  std::uint64_t size_ = 0;
  // Null until the file is open for the first time. Set once, so a reader needs no lock, also in a forked child.
  mutable std::atomic<const Facts*> facts_{nullptr};
};

// Fills destination with bytes from `offset` on. Errors: those of the source, with code ok replaced by read_failed;
// file_truncated if the source ends earlier; cancelled. It checks for cancellation before each read.
[[nodiscard]] Status read_exactly(const Source& source, std::uint64_t offset, std::span<std::byte> destination,
                                  base::Cancellation* cancellation = nullptr) noexcept;

}  // namespace safetensors::os
