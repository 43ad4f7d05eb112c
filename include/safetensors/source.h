/// @file
/// Defines Source, the interface between a File and its storage.
#pragma once

#include <safetensors/error.h>
#include <safetensors/span.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace safetensors {
namespace os {
class RegularFile;  // for the library only
}
inline namespace v0 {

/// A sequence of bytes that a File reads. Derive from it to read from your own storage.
///
/// Any number of threads may call the functions of one Source at the same time, unless concurrent() returns false.
///
/// size(), read_at() and memory() may throw. A File turns an exception into the error read_failed, with the text of the
/// exception, and std::bad_alloc into out_of_memory. A derived class may declare them noexcept.
class SAFETENSORS_API_CLASS Source {
 public:
  /// Makes a Source. A Source cannot be copied.
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  SAFETENSORS_API virtual ~Source();

  /// Returns the size of the source in bytes. The library calls size() once for each File, when it opens the File.
  [[nodiscard]] virtual Result<std::uint64_t> size() const = 0;

  /// Reads up to `destination.size()` bytes. `offset` is the offset of the first byte, in bytes from the start of the
  /// source. Returns the number of bytes read, which may be smaller than `destination.size()`. 0 means the end of the
  /// source.
  /// An error should have the code read_failed. If there is an `errno`, set os_error to it.
  [[nodiscard]] virtual Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> destination) const = 0;

  /// Memory that holds bytes of the source.
  struct Memory {
    Span<const std::byte> bytes;        ///< the bytes; valid as long as any copy of `owner` exists
    std::shared_ptr<const void> owner;  ///< keeps `bytes` alive
  };
  /// Returns memory that holds the bytes [offset, offset + size), or {} if the source has no such memory. The default
  /// implementation always returns {}. If it throws, the library reads the bytes with read_at().
  [[nodiscard]] virtual Memory memory([[maybe_unused]] std::uint64_t offset,
                                      [[maybe_unused]] std::uint64_t size) const {
    return {};
  }

  /// Returns false if only one thread at a time may call the functions of this Source. Then a File, with its copies and
  /// its tensors, calls them under a lock, and reads with one thread, unless ReadOptions::threads asks for more. If
  /// several Files share a Source, each has a lock of its own. While a function waits, its thread must not read the
  /// same File: it would wait for its own lock. The library asks once, when it opens the File.
  [[nodiscard]] virtual bool concurrent() const noexcept { return true; }

  /// Returns the number of bytes per call of read_at() that suits this Source, such as 32 MiB for storage that reads a
  /// long range with threads of its own. No call asks for more. Calls ask for less at the end of a tensor, for smaller
  /// tensors and pieces of slices, and if the ReadOptions ask for less. A ReadPlan takes the next lower multiple of 64,
  /// at least 4096 and at most 2^30. The library asks once, when it opens the File.
  /// Results that are cast, or whose bytes are gathered, pass through buffers of this size, one per thread, unless
  /// ReadOptions::memory_limit allows less.
  /// 0: the library chooses. A ReadPlan, File::view() and the header then use 2 MiB, and Tensor::read() the whole
  /// tensor.
  [[nodiscard]] virtual std::uint64_t request_bytes() const noexcept { return 0; }

 private:
  friend class os::RegularFile;
  // Returns the object if it is a file of the system. A dynamic_cast needs RTTI, which some programs are built without.
  [[nodiscard]] virtual const os::RegularFile* safetensors_regular_file() const noexcept { return nullptr; }
};

}  // namespace v0
}  // namespace safetensors
