// The state of a File, which its Tensors share, and the function that opens a File.
#pragma once

#include <safetensors/file.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/cancellation.h"
#include "os/regular_file.h"

namespace safetensors {
inline namespace v0 {
namespace detail {

struct FileState : std::enable_shared_from_this<FileState> {
  FileState() = default;
  FileState(const FileState&) = delete;
  FileState& operator=(const FileState&) = delete;
  ~FileState() { delete shared_map_.load(std::memory_order_relaxed); }

  // A map of the whole file. The first call makes the map, later calls share it. If the system refuses, the result has
  // no bytes, and the next call tries again. The function takes no lock, so a forked child may call it at any time.
  [[nodiscard]] os::Mapping shared_map() const noexcept;

  struct View {
    std::span<std::byte> bytes;  // not to be written to, unless the kind is copy_on_write_map
    std::shared_ptr<const void> owner;
    MemoryKind kind;
  };
  // A range of the file in place. Returns nullopt if the range must be read instead: the file is not mapped, the system
  // refuses to map it, or the Source has no such memory. A private map covers the range only, so on 32-bit machines it
  // works for files of any size.
  [[nodiscard]] std::optional<View> view(std::uint64_t offset, std::uint64_t size, Map map) const noexcept;

  // Reads destination.size() bytes from an offset in the file. Errors name the tensor, the path and the offset.
  [[nodiscard]] Status read(const TensorInfo& tensor, std::uint64_t offset,
                            std::span<std::byte> destination) const noexcept;

  // Adds the tensor and the path to an error of a lower layer.
  [[nodiscard]] Error describe(const TensorInfo& tensor, Error error) const noexcept;

  // Completes the error of a read at an offset in the file. Does what describe() does, and sets the offset if it is
  // missing.
  [[nodiscard]] Error failed(const TensorInfo& tensor, std::uint64_t offset, Error error) const noexcept;

  // The bytes of the tensor if the caller's Source has them in memory. Otherwise, the result has no bytes.
  [[nodiscard]] Source::Memory memory(const TensorInfo& tensor) const noexcept;

  // Never `automatic`. If the file is to be opened on demand and its file system decides, this call opens it.
  [[nodiscard]] v0::Access access() const noexcept;

  std::shared_ptr<const Source> source;
  std::shared_ptr<const os::RegularFile> posix;  // the source, if it is a file; else null
  Header header;
  v0::Access requested_access = v0::Access::read;  // `automatic`: the file system decides; only with `posix`
  std::string path;

 private:
  mutable std::atomic<const os::Mapping*> shared_map_{nullptr};
};

template <>
struct Access<File> {
  static File make(std::shared_ptr<const FileState> state) noexcept { return File(std::move(state)); }
  static const std::shared_ptr<const FileState>& state(const File& file) noexcept { return file.state_; }
};

template <>
struct Access<Tensor> {
  static Tensor make(const File& file, const TensorInfo& info) noexcept { return {Access<File>::state(file), &info}; }
  static const FileState& state(const Tensor& tensor) noexcept { return *tensor.state_; }
};

}  // namespace detail
}  // namespace v0
}  // namespace safetensors

namespace safetensors::file {

// The dtype and the shape of an Array with a whole tensor. A tensor of unknown dtype becomes an Array of bytes.
[[nodiscard]] Dtype array_dtype(const TensorInfo& tensor) noexcept;
[[nodiscard]] Shape array_shape(const TensorInfo& tensor);
// Returns whether a slice takes the whole tensor without looking at it.
[[nodiscard]] bool is_whole(const Slice& slice) noexcept;
// Resolves a slice for an Array with a whole tensor. A tensor of unknown dtype can only be read whole. Errors: those of
// Slice::resolve(), dtype_mismatch. May throw std::bad_alloc.
[[nodiscard]] Result<ResolvedSlice> resolve(const Slice& slice, const TensorInfo& tensor);

// Error: slice_not_contiguous.
[[nodiscard]] Status check_contiguous(const ResolvedSlice& slice);
// The offset of a contiguous slice in the tensor, in bytes.
[[nodiscard]] std::uint64_t first_byte(const ResolvedSlice& slice) noexcept;

// between: see os::RegularFile::open(). Ignores options.parse.cancelled. Errors: as File::open.
[[nodiscard]] Result<File> open_file(std::string_view path, const OpenOptions& options, os::Between between,
                                     base::Cancellation& cancellation) noexcept;

}  // namespace safetensors::file
