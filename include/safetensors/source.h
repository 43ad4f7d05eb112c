/// @file
/// The interface between a File and its storage.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace safetensors {
inline namespace v0 {

/// A sequence of bytes that a File reads. Derive from it to read from your own storage.
///
/// The library calls each function from any number of threads at once. No function may throw.
class SAFETENSORS_API Source {
 public:
  /// A Source has no state of its own and cannot be copied.
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source();

  /// Returns the size in bytes. The library calls it once, when it opens a File.
  [[nodiscard]] virtual Result<std::uint64_t> size() const noexcept = 0;

  /// Reads up to `destination.size()` bytes at `offset`, in bytes from the start. Returns the number of bytes read. It
  /// may be smaller than the destination; 0 means the end.
  /// An error should have the code read_failed and, if there is one, os_error.
  [[nodiscard]] virtual Result<std::size_t> read_at(std::uint64_t offset,
                                                    std::span<std::byte> destination) const noexcept = 0;

  /// Memory that holds bytes of the source.
  struct Memory {
    std::span<const std::byte> bytes;   ///< the bytes; valid as long as `owner`
    std::shared_ptr<const void> owner;  ///< keeps `bytes` alive
  };
  /// Returns memory that holds the bytes [offset, offset + size). Returns {} if the source has no such memory. That is
  /// the default.
  [[nodiscard]] virtual Memory memory(std::uint64_t offset, std::uint64_t size) const noexcept;
};

}  // namespace v0
}  // namespace safetensors
