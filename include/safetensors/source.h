/// @file
/// Defines Source, the interface between a File and its storage.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace safetensors {
namespace os {
class RegularFile;  // for the library only
}
inline namespace v0 {

/// A sequence of bytes that a File reads. Derive from it to read from your own storage.
///
/// Any number of threads may call the functions of one Source at the same time. No function may throw.
class SAFETENSORS_API_CLASS Source {
 public:
  /// Makes a Source. A Source cannot be copied.
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  SAFETENSORS_API virtual ~Source();

  /// Returns the size of the source in bytes. The library calls size() once for each File, when it opens the File.
  [[nodiscard]] virtual Result<std::uint64_t> size() const noexcept = 0;

  /// Reads up to `destination.size()` bytes. `offset` is the offset of the first byte, in bytes from the start of the
  /// source. Returns the number of bytes read, which may be smaller than `destination.size()`. 0 means the end of the
  /// source.
  /// An error should have the code read_failed. If there is an `errno`, set os_error to it.
  [[nodiscard]] virtual Result<std::size_t> read_at(std::uint64_t offset,
                                                    std::span<std::byte> destination) const noexcept = 0;

  /// Memory that holds bytes of the source.
  struct Memory {
    std::span<const std::byte> bytes;   ///< the bytes; valid as long as any copy of `owner` exists
    std::shared_ptr<const void> owner;  ///< keeps `bytes` alive
  };
  /// Returns memory that holds the bytes [offset, offset + size), or {} if the source has no such memory. The default
  /// implementation always returns {}.
  [[nodiscard]] SAFETENSORS_API virtual Memory memory(std::uint64_t offset, std::uint64_t size) const noexcept;

 private:
  friend class os::RegularFile;
  // Returns the object if it is a file of the system. A dynamic_cast needs RTTI, which some programs are built without.
  [[nodiscard]] virtual const os::RegularFile* safetensors_regular_file() const noexcept { return nullptr; }
};

}  // namespace v0
}  // namespace safetensors
