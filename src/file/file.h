// What a File and its Tensors share.
#pragma once

#include <safetensors/file.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/cancellation.h"
#include "os/posix_file.h"

namespace safetensors {
inline namespace v0 {
namespace detail {

struct FileState {
  FileState() = default;
  FileState(const FileState&) = delete;
  FileState& operator=(const FileState&) = delete;
  ~FileState() { delete shared_map_.load(std::memory_order_relaxed); }

  // The whole file, mapped at the first call and then shared; no bytes when the system refuses, which is asked again
  // the next time. No lock: a child of a fork may call it whatever its parent's threads were doing.
  [[nodiscard]] os::Mapping shared_map() const noexcept;

  // Fills destination with the file's bytes from offset on; errors name the tensor, the path and the offset.
  [[nodiscard]] Status read(const TensorInfo& tensor, std::uint64_t offset,
                            std::span<std::byte> destination) const noexcept;

  // Adds tensor and path to an error that something below reported.
  [[nodiscard]] Error describe(const TensorInfo& tensor, Error error) const noexcept;

  // The error of reading the tensor's bytes at offset, complete.
  [[nodiscard]] Error failed(const TensorInfo& tensor, std::uint64_t offset, Error error) const noexcept;

  // The tensor's bytes where the Source has them in memory, else none.
  [[nodiscard]] Source::Memory memory(const TensorInfo& tensor) const noexcept;

  std::shared_ptr<const Source> source;
  std::shared_ptr<const os::PosixFile> posix;  // the same, when it is a file
  Header header;
  Access access = Access::read;
  std::string path;

 private:
  mutable std::atomic<const os::Mapping*> shared_map_{nullptr};
};

// The one way to make a File, and a Tensor of it, from outside of them.
struct FileAccess {
  static File make(std::shared_ptr<const FileState> state) noexcept { return File(std::move(state)); }
  static Tensor tensor(const File& file, const TensorInfo& info) noexcept { return Tensor(file.state_, &info); }
};

// The one way into the private parts of Tensor.
struct TensorAccess {
  static const FileState& state(const Tensor& tensor) noexcept { return *tensor.state_; }
};

}  // namespace detail
}  // namespace v0
}  // namespace safetensors

namespace safetensors::file {

// The file's descriptor is in the slot, if that has a pool. threads: that read a long header; 0: as many as are of use.
// Errors: as File::open. options.parse.cancelled is not looked at.
[[nodiscard]] Result<File> open_file(std::string_view path, const OpenOptions& options, os::PoolSlot slot,
                                     unsigned threads, base::Cancellation& cancellation) noexcept;

}  // namespace safetensors::file
