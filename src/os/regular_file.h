// A regular file, open for reading at offsets and for maps.
#pragma once

#include <safetensors/error.h>
#include <safetensors/source.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/cancellation.h"
#include "os/descriptor.h"
#include "os/file_status.h"
#include "os/memory.h"

namespace safetensors::os {

// Mapped bytes of a file. They stay mapped until the last copy of owner is gone.
struct Mapping {
  std::span<std::byte> bytes;  // a write to a MapMode::shared mapping raises SIGSEGV
  std::shared_ptr<const void> owner;
};

// What happens to the descriptor of a file between two uses.
enum class Between { stays_open, is_closed };

// Thread-safe.
class RegularFile final : public Source {
 public:
  // Never waits for a FIFO or a device, and never opens a device. With Between::is_closed, each use opens the file
  // again, by the same absolute path, even if the working directory changes, and accepts only the same unchanged file.
  // Errors, with path and os_error: invalid_argument (a path with a zero byte), open_failed, not_regular_file.
  [[nodiscard]] static Result<std::shared_ptr<const RegularFile>> open(std::string_view path,
                                                                       Between between = Between::stays_open) noexcept;
  // Makes a descriptor of its own: see duplicate_for_reading(). Errors: those of open(), without a path.
  [[nodiscard]] static Result<std::shared_ptr<const RegularFile>> from_fd(int descriptor) noexcept;
  // Takes a descriptor that is open for reading. Errors: those of open(), without a path.
  [[nodiscard]] static Result<std::shared_ptr<const RegularFile>> take(Descriptor descriptor) noexcept;
  ~RegularFile() override = default;

  // Returns the source as a RegularFile, or nullptr if it is another one.
  [[nodiscard]] static const RegularFile* of(const Source& source) noexcept {
    return source.safetensors_regular_file();
  }

  // The size at the time of open(), in bytes.
  [[nodiscard]] Result<std::uint64_t> size() const noexcept override { return identity_.size; }
  [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> destination) const noexcept override;

  // Returns the descriptor. It is valid while the Lease lives, and the Lease must not outlive the file. Errors, only
  // with Between::is_closed and without a path: open_failed, file_changed (device, inode, size or change time differ
  // from those at open()), out_of_memory.
  [[nodiscard]] Result<Lease> lease() const noexcept;

  // Maps a range of the file. A range without bytes gives an empty span and no owner. The map stays valid after the
  // descriptor is closed. Errors: map_failed (with os_error), file_truncated if the range ends after the current end of
  // the file, and those of lease().
  [[nodiscard]] Result<Mapping> map(std::uint64_t offset, std::uint64_t size, MapMode mode) const noexcept;

  // Both are from the time of open().
  [[nodiscard]] const FileIdentity& identity() const noexcept { return identity_; }
  [[nodiscard]] FileSystem file_system() const noexcept { return file_system_; }

 private:
  [[nodiscard]] const RegularFile* safetensors_regular_file() const noexcept override { return this; }

  RegularFile() noexcept = default;
  [[nodiscard]] static Result<std::shared_ptr<const RegularFile>> of_descriptor(Descriptor descriptor,
                                                                                const std::string& path,
                                                                                Between between);

  Descriptor descriptor_;  // invalid if the file is closed between two uses
  std::string path_;       // then: the absolute path to open again
  FileIdentity identity_;
  FileSystem file_system_ = FileSystem::local;
};

// Fills destination with bytes from `offset` on. The source must return no more bytes than asked for. Errors: those of
// the source; file_truncated if the source ends earlier; cancelled. It checks for cancellation before each read.
// counted: called after each read with the number of its bytes. Pass std::ref() of a function, so that nothing is
// allocated.
[[nodiscard]] Status read_exactly(const Source& source, std::uint64_t offset, std::span<std::byte> destination,
                                  base::Cancellation* cancellation = nullptr,
                                  const std::function<void(std::size_t bytes)>& counted = nullptr) noexcept;

}  // namespace safetensors::os
