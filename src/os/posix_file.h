// A regular file, open for reading: positioned reads and maps.
#pragma once

#include <safetensors/error.h>
#include <safetensors/source.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/cancellation.h"
#include "os/descriptor.h"
#include "os/descriptor_pool.h"
#include "os/file_system.h"

namespace safetensors::os {

enum class MapMode : std::uint8_t {
  shared,         // read-only
  copy_on_write,  // writable, the file never changes; reserves no memory, so it may be larger than what there is
};

// Bytes of a file in memory, until the last copy of owner goes.
struct Mapping {
  std::span<std::byte> bytes;  // of MapMode::shared: not to be written to
  std::shared_ptr<const void> owner;
};

// A slot that is one file's alone; without a pool the file keeps its descriptor open.
struct PoolSlot {
  std::shared_ptr<DescriptorPool> pool = nullptr;
  std::size_t slot = 0;
};

class PosixFile final : public Source {
 public:
  // Never waits on a FIFO or a device, and does not touch a device. In a pool's slot the descriptor may be closed and
  // opened again: by the same path, whatever the working directory is then, and only if the file is still the same.
  // Errors: invalid_argument (path with a zero byte), open_failed, not_regular_file; path and os_error are set.
  [[nodiscard]] static Result<std::shared_ptr<const PosixFile>> open(std::string_view path,
                                                                     PoolSlot slot = {}) noexcept;
  // Duplicates the descriptor. Errors: as open(), without a path.
  [[nodiscard]] static Result<std::shared_ptr<const PosixFile>> from_fd(int descriptor) noexcept;
  ~PosixFile() override;

  // As it was when the file was opened.
  [[nodiscard]] Result<std::uint64_t> size() const noexcept override { return identity_.size; }
  [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset,
                                            std::span<std::byte> destination) const noexcept override;

  // The descriptor, for as long as the Lease lives, which must be shorter than the file does. Errors, only in a pool:
  // open_failed, file_changed (device, inode, size or change time are not what they were); without a path.
  [[nodiscard]] Result<Lease> lease() const noexcept;

  // Errors: map_failed (os_error), file_truncated when the range ends past the end of the file as it is now.
  // A range of no bytes gives an empty span and no owner. Also lease()'s; the map needs no descriptor to stay.
  [[nodiscard]] Result<Mapping> map(std::uint64_t offset, std::uint64_t size, MapMode mode) const noexcept;

  // As they were when the file was opened.
  [[nodiscard]] const FileIdentity& identity() const noexcept { return identity_; }
  [[nodiscard]] FileSystem file_system() const noexcept { return file_system_; }

 private:
  PosixFile() noexcept = default;
  Status look(int descriptor, std::string_view path);

  Descriptor descriptor_;  // none in a pool
  PoolSlot slot_;
  std::string again_;  // the path to open again
  FileIdentity identity_;
  FileSystem file_system_ = FileSystem::local;
};

// Fills destination from offset on. Errors: the source's, never of code ok; file_truncated when it ends before, with
// both numbers; cancelled, which is looked for before each read.
[[nodiscard]] Status read_exactly(const Source& source, std::uint64_t offset, std::span<std::byte> destination,
                                  base::Cancellation* cancellation = nullptr) noexcept;

}  // namespace safetensors::os
