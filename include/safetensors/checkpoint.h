// Many files opened as one set of tensors.
#pragma once

#include <safetensors/error.h>
#include <safetensors/file.h>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace safetensors {
inline namespace v0 {

struct CheckpointOptions {
  OpenOptions open = {};
  unsigned threads = 0;  // that read headers, the caller's one of them; 0: as many as are of use, at most 16
};

namespace detail {
struct CheckpointState;
}

// The tensors of a Checkpoint: file after file, in a file by offset. A view: lives as long as any copy of the
// Checkpoint; the Tensors it gives live on their own.
class CheckpointTensors {
 public:
  using iterator = detail::IndexIterator<CheckpointTensors>;

  CheckpointTensors() noexcept = default;
  [[nodiscard]] SAFETENSORS_API std::size_t size() const noexcept;
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] SAFETENSORS_API Tensor operator[](std::size_t index) const noexcept;
  [[nodiscard]] iterator begin() const noexcept { return {*this, 0}; }
  [[nodiscard]] iterator end() const noexcept { return {*this, size()}; }

 private:
  friend class Checkpoint;
  explicit CheckpointTensors(const detail::CheckpointState* state) noexcept : state_(state) {}
  const detail::CheckpointState* state_ = nullptr;
};

// Copies are cheap and share; const calls from any thread, also in a child of a fork. Tensors and Files outlive it.
//
// All headers are read and checked when it is opened; no tensor's byte is. Of its files at most half of RLIMIT_NOFILE,
// as it was then, keep a descriptor while nothing reads from them; the others are opened again by their paths when they
// are read from, and must be what they were (device, inode, size, change time), else that call's error is file_changed.
// Maps that were made stay.
class Checkpoint {
 public:
  // path: a safetensors file; an index (*.json); a folder: its model.safetensors.index.json, else its only
  // *.safetensors.index.json, else its only *.safetensors; or, where nothing has that name, a pattern of files (*, ?,
  // [a-z], [!a-z], \ before a character that means itself; names sorted by their bytes). Names that begin with a dot
  // are not looked at in folders, nor by patterns unless they write the dot.
  //
  // An index decides which tensors there are: one that its weight_map does not name is not seen. Its files are opened
  // in the order of their names' bytes, from the folder of the index's path as given: links are not resolved first. A
  // file's name must be relative, hold no `..`, colon, control or invisible character and end in .safetensors, judged
  // as POSIX and as Windows would. An index has at most 2^28 bytes (256 MiB). Reading it takes at most 4 x its size +
  // 64 KiB of memory, opening all of it at most 6 x its size + 1 MiB, besides what the files take.
  //
  // Paths and indexes are looked at first, then the files, in their order: the first error counts. Errors:
  // File::open's (options.open.parse.cancelled is asked throughout); invalid_index (not such an index, a name in it
  // twice, a file that may not be called so, a tensor that its file lacks); ambiguous_checkpoint (a folder with several
  // to choose from, which are named); not_found (a folder with none, a pattern without a match); duplicate_name (a
  // tensor in two files, which are named).
  static SAFETENSORS_API Result<Checkpoint> open(std::string_view path, const CheckpointOptions& options = {}) noexcept;
  // All that the paths stand for, each as above, in their order. Errors: the same; invalid_argument (no paths).
  static SAFETENSORS_API Result<Checkpoint> open(std::span<const std::string> paths,
                                                 const CheckpointOptions& options = {}) noexcept;
  static Result<Checkpoint> open(std::initializer_list<std::string> paths,
                                 const CheckpointOptions& options = {}) noexcept {
    return open(std::span<const std::string>(paths.begin(), paths.size()), options);
  }

  [[nodiscard]] std::size_t size() const noexcept { return CheckpointTensors(state_.get()).size(); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] CheckpointTensors tensors() const& noexcept { return CheckpointTensors(state_.get()); }
  CheckpointTensors tensors() const&& = delete;

  // Error: not_found, with the most similar name when there is one.
  [[nodiscard]] SAFETENSORS_API Result<Tensor> tensor(std::string_view name) const noexcept;
  [[nodiscard]] SAFETENSORS_API bool contains(std::string_view name) const noexcept;

  // In the order of paths, the files of one path by the bytes of their names. A File here shows all its tensors, also
  // those that an index does not name.
  [[nodiscard]] SAFETENSORS_API std::span<const File> files() const& noexcept;
  std::span<const File> files() const&& = delete;

 private:
  explicit Checkpoint(std::shared_ptr<const detail::CheckpointState> state) noexcept;
  std::shared_ptr<const detail::CheckpointState> state_;
};

}  // namespace v0
}  // namespace safetensors
