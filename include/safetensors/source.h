// Bytes at offsets: what a File reads from. Implement it to read from anything.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace safetensors {
inline namespace v0 {

// Every function is called from any number of threads at once and must not throw.
class SAFETENSORS_API Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source();

  // In bytes; asked once, when a File is opened.
  [[nodiscard]] virtual Result<std::uint64_t> size() const noexcept = 0;

  // Reads up to destination.size() bytes at offset and returns how many; fewer is allowed, 0 means the end.
  // Errors should carry code read_failed and, if there is one, os_error.
  [[nodiscard]] virtual Result<std::size_t> read_at(std::uint64_t offset,
                                                    std::span<std::byte> destination) const noexcept = 0;

  // Memory of [offset, offset + size) that stays valid as long as the owner, or {} if there is none (the default).
  struct Memory {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
  };
  [[nodiscard]] virtual Memory memory(std::uint64_t offset, std::uint64_t size) const noexcept;
};

}  // namespace v0
}  // namespace safetensors
