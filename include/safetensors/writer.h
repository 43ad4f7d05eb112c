// Writing files: whole ones from memory, larger ones piece by piece, and the metadata of one that is there.
#pragma once

#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/header.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace safetensors {
inline namespace v0 {

// What is promised when a function that writes returns without error. In every case programs see the old file or
// the new one, never a mix, and after an error the old file is as it was, with nothing beside it.
enum class Durability : std::uint8_t {
  full,  // the new file is there, also after a power cut
  file,  // after a power cut the old file or the new one
  none,  // after a power cut the old file, the new one, an empty one, or zeros
};

struct WriteOptions {
  Durability durability = Durability::full;
  // File systems that cannot rename (some object-store mounts): write in place instead of failing with unsupported.
  // An error or a crash then leaves a torn file.
  bool in_place_if_no_rename = false;
  // Called every few MiB with the bytes written so far and the size of the file, or of all files together, by the
  // thread that called write_file, write_files, Writer::write, Writer::copy or edit_metadata, and never by two at once.
  // false ends the call with Errc::cancelled, and so every later call of that Writer; the old file is as it was. In
  // edit_metadata the last call comes when the new file is durable and not yet in place; with EditOptions::in_place
  // there is none. Must not throw, nor use the Writer.
  std::function<bool(std::uint64_t done, std::uint64_t total)> progress = nullptr;
  /// A symlink at the path. false: it is followed, and the file that it leads to is replaced. true: the link itself
  /// becomes a regular file with the mode and owner of the file that it led to, and that file stays as it is. Links
  /// that lead to a device, a FIFO or a socket, or into /proc, /sys or their like, are then refused with
  /// Errc::not_regular_file.
  bool replace_symlinks = false;
};

// Zero or more pairs; nullopt: no __metadata__ at all.
using MetadataPairs = std::vector<std::pair<std::string, std::string>>;

// A tensor in the caller's memory: C order, little-endian, exactly as long as dtype and shape say.
struct TensorData {
  std::string_view name;
  Dtype dtype = Dtype::U8;
  ShapeView shape;
  std::span<const std::byte> bytes;
};

// A whole file in memory.
struct Serialized {
  std::unique_ptr<std::byte[]> data;
  std::size_t size = 0;
  [[nodiscard]] std::span<const std::byte> bytes() const& noexcept { return {data.get(), size}; }
  std::span<const std::byte> bytes() const&& = delete;
};

// The header that serialize and write_file write. Errors: HeaderBuilder's, and data_length.
[[nodiscard]] SAFETENSORS_API Result<Header> layout(std::span<const TensorData> tensors,
                                                    const std::optional<MetadataPairs>& metadata = std::nullopt,
                                                    const LayoutOptions& options = {}) noexcept;

// The bytes of a file, in one allocation. Errors: layout's, out_of_memory.
[[nodiscard]] SAFETENSORS_API Result<Serialized> serialize(std::span<const TensorData> tensors,
                                                           const std::optional<MetadataPairs>& metadata = std::nullopt,
                                                           const LayoutOptions& options = {}) noexcept;

// Writes a file, replacing what is at path. Nothing is touched when the tensors cannot be laid out. Tensors may be
// views of the very file that is replaced. The file's mode follows the old file or the umask. Symlinks are followed
// unless options.replace_symlinks says otherwise. A hard link becomes a file of its own. Devices, FIFOs, sockets and
// directories are refused.
// Errors: layout's, open_failed, not_regular_file, write_failed (ENOSPC and others in os_error), sync_failed,
// replace_failed, replaced_not_durable, unsupported, cancelled.
[[nodiscard]] SAFETENSORS_API Status write_file(std::string_view path, std::span<const TensorData> tensors,
                                                const std::optional<MetadataPairs>& metadata = std::nullopt,
                                                const WriteOptions& options = {},
                                                const LayoutOptions& layout_options = {}) noexcept;

// One file of several.
struct FileContents {
  std::string_view path;
  std::span<const TensorData> tensors;
  std::optional<MetadataPairs> metadata = std::nullopt;
};

// Writes several files, the shards of a checkpoint, by at most four threads. Room for all is set aside first (unless
// durability is none), all are written and synced, and only then the first takes its place: an error or a crash until
// then leaves every old file. Each file is replaced atomically, the set is not: a crash between the first rename and
// the last leaves new files beside old ones, and so does an error there, whose message then ends in
// "; N of M files were already replaced". Up to three descriptors for each file are open at once.
// Errors: write_file's; invalid_argument if two paths lead to one file. Those about one file name it.
[[nodiscard]] SAFETENSORS_API Status write_files(std::span<const FileContents> files, const WriteOptions& options = {},
                                                 const LayoutOptions& layout_options = {}) noexcept;

// A file larger than memory, written in pieces in any order. Nothing appears at the path before commit(); without it
// the destructor removes what was written. Not to be used in a forked child, where it may only be destroyed.
class Writer {
 public:
  // Errors: as write_file.
  static SAFETENSORS_API Result<Writer> create(std::string_view path, const Header& header,
                                               const WriteOptions& options = {}) noexcept;

  SAFETENSORS_API Writer(Writer&&) noexcept;
  SAFETENSORS_API Writer& operator=(Writer&&) noexcept;
  SAFETENSORS_API ~Writer();

  // Bytes [offset, offset + bytes.size()) of a tensor; each byte exactly once. From any number of threads at once.
  // After the first failure to write, every call returns that failure.
  // Where durable, pieces of 256 KiB and more go to the disk at once, by up to four threads of the call's own: then
  // few large pieces are faster than many small ones. Memory besides: 8 MiB at most for each Writer.
  // Errors: not_found, overlapping_write, buffer_size (past the tensor's end), write_failed, out_of_memory,
  // writer_closed, cancelled.
  [[nodiscard]] SAFETENSORS_API Status write(std::string_view name, std::uint64_t offset,
                                             std::span<const std::byte> bytes) noexcept;

  // All of a tensor from another file, which must have the same dtype and shape, in the same 8 MiB of memory; its
  // Source may be read by several threads at once. Where only reading fails, whatever the Source calls that, nothing of
  // the tensor counts as written, and it may be tried again.
  // Errors also: dtype_mismatch, data_length, and those of reading.
  [[nodiscard]] SAFETENSORS_API Status copy(std::string_view name, const Tensor& tensor) noexcept;

  // Puts the file in its place. Error incomplete_write names the first tensor and range not yet written; the Writer
  // then goes on. Must not overlap other calls.
  [[nodiscard]] SAFETENSORS_API Status commit() noexcept;

  // What it writes; an empty Header once the Writer was moved from.
  [[nodiscard]] const Header& header() const& noexcept { return header_; }
  const Header& header() const&& = delete;

 private:
  struct State;
  explicit Writer(std::unique_ptr<State> state) noexcept;
  Header header_;
  std::unique_ptr<State> state_;
};

struct EditOptions {
  // Write only the header, at once, when the new one fits where the old one is; else error header_does_not_fit.
  // Fast for huge files, but a kill or power cut in that moment, or a reader opening right then, meets a torn header.
  bool in_place = false;
  // Without in_place: spaces to leave for later edits.
  std::uint64_t metadata_slack = 0;
  WriteOptions write = {};
  ParseOptions parse = {};
};

// A change to one metadata key: the new value, or nullopt to remove it (a key that is not there is no error).
struct MetadataEdit {
  std::string key;
  std::optional<std::string> value;
};

// Sets and removes metadata keys. Without in_place a new file is written, the tensors' bytes copied by the system,
// and replaces the old one as write_file does. If the file was changed or replaced meanwhile, that is the error
// file_changed and the file is left alone. This is best effort: a change in the moment between the last look and the
// rename is lost. Errors: File::open's, Header's, write_file's, header_does_not_fit, file_changed.
[[nodiscard]] SAFETENSORS_API Status edit_metadata(std::string_view path, std::span<const MetadataEdit> edits,
                                                   const EditOptions& options = {}) noexcept;
[[nodiscard]] inline Status edit_metadata(std::string_view path, std::initializer_list<MetadataEdit> edits,
                                          const EditOptions& options = {}) noexcept {
  return edit_metadata(path, std::span<const MetadataEdit>(edits.begin(), edits.size()), options);
}

}  // namespace v0
}  // namespace safetensors
