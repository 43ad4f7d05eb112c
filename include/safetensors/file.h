// A file whose header has been checked, and its tensors: no tensor's byte is touched until it is asked for.
#pragma once

#include <safetensors/array.h>
#include <safetensors/error.h>
#include <safetensors/header.h>
#include <safetensors/slice.h>
#include <safetensors/source.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace safetensors {
inline namespace v0 {

// How the bytes of a file are reached.
enum class Access : std::uint8_t {
  automatic,  // decided at open: read on network and user-space file systems, else map
  map,        // view() maps the file; SIGBUS if the file is made shorter meanwhile
  read,       // never maps: a file made shorter is an error, file_truncated
};

struct OpenOptions {
  Access access = Access::automatic;
  ParseOptions parse = {};
};

// What view() gives.
enum class Map : std::uint8_t {
  shared,         // read-only, shared with every reader of the file
  copy_on_write,  // writable, private; the file never changes. Owned memory instead if the system refuses the map
};

namespace detail {
struct FileAccess;
struct FileState;
struct TensorAccess;
}  // namespace detail
class Tensor;

// Copies are cheap and share; const calls from any thread. Tensors and Arrays outlive it.
class File {
 public:
  // Reads and checks the header, nothing else; never waits on a FIFO or device.
  // Errors: open_failed (os_error), not_regular_file, read_failed, file_truncated, out_of_memory, cancelled, and all of
  // rules 1-10.
  static SAFETENSORS_API Result<File> open(std::string_view path, const OpenOptions& options = {}) noexcept;

  // The same for a descriptor, which is duplicated: the caller keeps his. Its file position is neither used nor moved.
  static SAFETENSORS_API Result<File> from_fd(int descriptor, const OpenOptions& options = {}) noexcept;

  // Over memory that holds a whole file and that owner keeps alive; view() then points into it.
  static SAFETENSORS_API Result<File> from_memory(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                                                  const ParseOptions& options = {}) noexcept;

  // Over the caller's own Source. access() is read, unless the Source gives memory.
  static SAFETENSORS_API Result<File> from_source(std::shared_ptr<const Source> source,
                                                  const ParseOptions& options = {}) noexcept;

  [[nodiscard]] SAFETENSORS_API const Header& header() const& noexcept;
  const Header& header() const&& = delete;

  // Error: not_found, with the most similar name when there is one.
  [[nodiscard]] SAFETENSORS_API Result<Tensor> tensor(std::string_view name) const noexcept;

  // The bytes of all tensors over one map, as U8: tensor t is [t.begin, t.end) of it. For many tensors at the cost of
  // one. Read into owned memory where Tensor::view would, by several threads. Errors: as Tensor::view.
  [[nodiscard]] SAFETENSORS_API Result<Array> view(Map map = Map::shared) const noexcept;

  // map or read, never automatic: what was decided when the file was opened.
  [[nodiscard]] SAFETENSORS_API Access access() const noexcept;
  // As given to open(); empty for from_fd, from_memory and from_source.
  [[nodiscard]] SAFETENSORS_API const std::string& path() const& noexcept;
  const std::string& path() const&& = delete;
  // The bytes of the file, header included.
  [[nodiscard]] SAFETENSORS_API const Source& source() const& noexcept;
  const Source& source() const&& = delete;

 private:
  friend class Tensor;
  friend struct detail::FileAccess;
  explicit File(std::shared_ptr<const detail::FileState> state) noexcept;
  std::shared_ptr<const detail::FileState> state_;
};

// A name in a File. Keeps what it needs of the File alive. Copies are cheap; const calls from any thread.
class Tensor {
 public:
  [[nodiscard]] const TensorInfo& info() const& noexcept { return *info_; }
  const TensorInfo& info() const&& = delete;
  [[nodiscard]] std::string_view name() const& noexcept { return info_->name; }
  std::string_view name() const&& = delete;
  [[nodiscard]] Dtype dtype() const noexcept { return info_->dtype; }
  [[nodiscard]] ShapeView shape() const& noexcept { return info_->shape; }
  ShapeView shape() const&& = delete;
  [[nodiscard]] std::uint64_t nbytes() const noexcept { return info_->nbytes(); }

  // Zero copy where file().access() is map or the Source gives memory, else read into owned memory: Array::memory()
  // tells. Reading errors as read_into; map_failed never: a refused map becomes a read.
  [[nodiscard]] SAFETENSORS_API Result<Array> view(Map map = Map::shared) const noexcept;

  // Into memory of its own, aligned to 64 bytes. Errors: out_of_memory, read_failed, file_truncated, Slice::resolve's.
  [[nodiscard]] SAFETENSORS_API Result<Array> read() const noexcept;
  [[nodiscard]] SAFETENSORS_API Result<Array> read(const Slice& slice) const noexcept;

  // Into the caller's memory, which must be exactly as large as the result (else buffer_size). Of a slice, runs of
  // 64 KiB and more are read exactly; shorter ones through a buffer of at most 1 MiB that may read up to a quarter
  // more than asked for, or more when runs are under 512 bytes. Thread-safe; positioned reads only.
  [[nodiscard]] SAFETENSORS_API Status read_into(std::span<std::byte> destination) const noexcept;
  [[nodiscard]] SAFETENSORS_API Status read_into(const Slice& slice, std::span<std::byte> destination) const noexcept;

  [[nodiscard]] SAFETENSORS_API File file() const noexcept;

 private:
  friend class File;
  friend struct detail::FileAccess;
  friend struct detail::TensorAccess;
  Tensor(std::shared_ptr<const detail::FileState> state, const TensorInfo* info) noexcept
      : state_(std::move(state)), info_(info) {}
  std::shared_ptr<const detail::FileState> state_;
  const TensorInfo* info_;
};

}  // namespace v0
}  // namespace safetensors
