/// @file
/// Makes and checks the index of a model of several files.
///
/// Thread-safety: any number of threads may call the functions that read. For one folder, call write_index() from one
/// thread at a time.
#pragma once

#include <safetensors/error.h>
#include <safetensors/header.h>
#include <safetensors/path.h>
#include <safetensors/writer.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace safetensors {
inline namespace v0 {

/// A new index of the files in a folder. write_index() writes it.
struct CheckpointIndex {
  std::string name;                ///< name of the index in the folder, such as `model.safetensors.index.json`
  std::string text;                ///< its text, byte for byte as CheckpointLayout::index_text() would be
  std::vector<std::string> files;  ///< names of the files, in their order
  std::size_t tensors = 0;         ///< number of tensors
  std::uint64_t total_size = 0;    ///< size of all tensors in bytes
};

/// Options of make_index().
struct MakeIndexOptions {
  /// The beginning of the name of the index. nullopt: the stem of the numbered files, otherwise `model`. If it is set,
  /// only the numbered files with this stem count, if there are any.
  std::optional<std::string> stem = std::nullopt;
  /// `metadata` of the index, as CheckpointLayoutOptions::index_metadata.
  std::string index_metadata = {};
};

/// Makes an index of the files in a folder. Reads only headers, and writes nothing.
///
/// The files are those with a name such as `model-00001-of-00003.safetensors`. All numbers must be there. If no file
/// has such a name, all files whose names end in `.safetensors` are taken. Hidden files do not count. Errors:
/// ambiguous_checkpoint (numbered files of several models), not_found (no file, or a number is missing), duplicate_name
/// (a tensor is in two files), invalid_argument (`index_metadata` is not an object; no file may have the name
/// `stem.safetensors`; a file has a name that no index may hold), invalid_utf8 (`stem`), and those of
/// Checkpoint::open().
[[nodiscard]] SAFETENSORS_API Result<CheckpointIndex> make_index(PathView folder,
                                                                 const MakeIndexOptions& options = {}) noexcept;

/// The kinds of problems that check_index() finds.
enum class IndexProblemKind : std::uint8_t {
  missing_file,      ///< the index names a file that does not exist
  invalid_file,      ///< a file cannot be opened, or breaks a rule of the format; `message` says which
  missing_tensor,    ///< the index names a tensor that is in none of its files
  wrong_file,        ///< a tensor is in another file than the index names; the named one may be missing or invalid
  unindexed_tensor,  ///< a tensor of a file that the index names is not in the index
  stray_file,        ///< a file of the folder is not in the index
  total_size,        ///< `total_size` is not the sum of the sizes of the tensors, or it is missing or no integer
  duplicate_tensor,  ///< a tensor is in two files that the index names; `file` is not the one that loaders read
};

/// A problem of an index.
struct IndexProblem {
  IndexProblemKind kind = IndexProblemKind::missing_file;  ///< its kind
  std::string tensor = {};                                 ///< name of the tensor, or empty
  std::string file = {};                                   ///< name of the file in the folder, or empty
  std::string message = {};                                ///< one sentence that names the problem
};

/// The result of check_index().
struct IndexCheck {
  std::string path;                    ///< path of the index
  std::vector<IndexProblem> problems;  ///< empty: the index is right
  CheckpointIndex fixed = {};          ///< with fix_index(): the right index
  /// Number of members of the index beside `metadata` and `weight_map`. `fixed` does not have them.
  std::size_t other_members = 0;
};

/// Compares an index with its files. Reads only headers. `path` is an index, or a folder. In a folder,
/// `model.safetensors.index.json` is taken, otherwise its only index. `parse`: options for the headers, as for
/// File::open(). `parse.cancelled` also cancels the reading of the index.
///
/// `total_size` is compared with the sizes of the tensors in the files. A tensor that is in two files counts once. A
/// loader reads it from the file that the index names.
///
/// Errors: not_found (a folder without an index), ambiguous_checkpoint (several indexes, none of them
/// `model.safetensors.index.json`), invalid_index, open_failed, read_failed, invalid_argument (`path` is neither a
/// folder nor an index), cancelled.
[[nodiscard]] SAFETENSORS_API Result<IndexCheck> check_index(PathView path, const ParseOptions& parse = {}) noexcept;

/// Compares as check_index() does, and makes the right index, with the name and the `metadata` of the old one. If all
/// files of the old index exist, the new one has the same files. Otherwise, the files are those of make_index(). Writes
/// nothing. Members of the index beside `metadata` and `weight_map` are lost. Errors: those of check_index() and
/// make_index(); invalid_index also if `metadata` has two members of one name.
[[nodiscard]] SAFETENSORS_API Result<IndexCheck> fix_index(PathView path) noexcept;

/// Writes an index into a folder, and replaces an old index of this name atomically, as save() does.
/// Errors: those of save(), and invalid_argument (the index is larger than 256 MiB).
[[nodiscard]] SAFETENSORS_API Status write_index(PathView folder, const CheckpointIndex& index,
                                                 const WriteOptions& options = {}) noexcept;

}  // namespace v0
}  // namespace safetensors
