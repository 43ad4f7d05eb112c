// Makes and checks the index of a model of several files.
//
// Thread-safety: any number of threads may call the functions that read. For one folder, call write_index() from one
// thread at a time.
#pragma once

#include <safetensors/callback.h>
#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/path.h>
#include <safetensors/writer.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace safetensors {
inline namespace v0 {

// A new index of the files in a folder. write_index() writes it.
struct CheckpointIndex {
  std::string name;                // name of the index in the folder, such as `model.safetensors.index.json`
  std::string text;                // its text, byte for byte as CheckpointLayout::index_text() would be
  std::vector<std::string> files;  // names of the files, in their order
  std::size_t tensors = 0;         // number of tensors
  std::uint64_t total_size = 0;    // size of all tensors in bytes
};

// Options of make_index().
struct MakeIndexOptions {
  // The beginning of the name of the index. nullopt: that of the old index, then the stem of the numbered files, then
  // `model`. If it is set, only the numbered files with this stem count, if there are any.
  std::optional<std::string> stem = std::nullopt;
};

// Makes an index of the shards in a folder. `path` is the folder, or an index in it. Reads only headers, and writes
// nothing.
//
// If the folder has an index, the new one has its name and its `metadata`, and the files are those that it names. All
// shards that the names of these files tell of belong to the model as well. Without an index, or if it cannot be
// parsed, or if a file that it names is missing, the files are those with a name such as
// `model-00001-of-00003.safetensors`. If no file has such a name, all files whose names end in `.safetensors` are
// taken. Hidden files do not count. Members of the old index beside `metadata` and `weight_map` are lost.
//
// The new index has every tensor of the files, and every tensor of the old index. Errors: ambiguous_checkpoint
// (numbered files of several models), not_found (no file, a number is missing, or a tensor of the old index is in no
// file), duplicate_name (a tensor is in two files), invalid_argument (no file may have the name `stem.safetensors`; a
// file has a name that no index may hold), invalid_utf8 (`stem`), invalid_index (the `metadata` of the old index has
// two members of one name), and those of Checkpoint::open().
[[nodiscard]] Result<CheckpointIndex> make_index(PathView path, const MakeIndexOptions& options = {}) noexcept;

// The kinds of problems that check_index() finds.
enum class IndexProblemKind : std::uint8_t {
  missing_file,      // a file does not exist: the index names it, or the numbers in the names of the others tell of it
  invalid_file,      // a file cannot be opened, or breaks a rule of the format; `message` says which
  missing_tensor,    // the index names a tensor that is in no file of the model
  wrong_file,        // a tensor is in another file than the index names; the named one may be missing or invalid
  unindexed_tensor,  // a tensor of a file that the index names is not in the index
  unindexed_file,    // a shard of the model is in the folder, and the index does not name it
  stray_file,        // another file of the folder is not in the index
  total_size,        // `total_size` is not the sum of the sizes of the tensors, or it is missing or no integer
  duplicate_tensor,  // a tensor is in two files; with an index, `file` is not the one that loaders read
};

// A problem of an index.
struct IndexProblem {
  IndexProblemKind kind = IndexProblemKind::missing_file;  // its kind
  bool is_error = true;      // loaders fail, or do not find a tensor of the model; false: worth a note
  std::string tensor = {};   // name of the tensor, or empty
  std::string file = {};     // name of the file in the folder of the index, or its path if there is no index, or empty
  std::string message = {};  // one sentence that names the problem
};

// Options of check_index().
struct CheckIndexOptions {
  // Options for the headers, as for File::open(). `cancelled` also cancels the reading of the index.
  ParseOptions parse = {};
  // Called with each file in turn, also with one that cannot be opened. Each is opened once, and closed after the
  // call.
  Callback<void(const std::string& path, const Result<File>& file)> visit = nullptr;
};

// The result of check_index().
struct IndexCheck {
  std::string path;                         // path of the index, or empty if there is none
  std::vector<IndexProblem> problems;       // at most 100,000 of one kind; empty: the index is right
  std::size_t files = 0;                    // number of files that the index names, or of all files
  std::size_t tensors = 0;                  // number of tensors of the index that are in a file, or of all tensors
  std::uint64_t nbytes = 0;                 // size of these tensors in bytes
  std::optional<std::uint64_t> total_size;  // that of the index, if it is an integer from 0 to 2^64-1
  std::size_t other_members = 0;            // number of members of the index beside `metadata` and `weight_map`
};

// Compares an index with its files. Reads only headers. `path` is one of those that Checkpoint::open() takes. If it
// leads to files without an index, their tensors and numbers are compared with each other.
//
// A tensor that is in two files counts once. A loader reads it from the file that the index names.
//
// Errors: those of Checkpoint::open() that concern the path and the index.
[[nodiscard]] Result<IndexCheck> check_index(PathView path, const CheckIndexOptions& options = {}) noexcept;

// Writes an index into a folder, and replaces an old index of this name atomically, as save() does.
// Errors: those of save(), and invalid_argument (the index is larger than 256 MiB).
[[nodiscard]] Status write_index(PathView folder, const CheckpointIndex& index,
                                 const WriteOptions& options = {}) noexcept;

}  // namespace v0
}  // namespace safetensors
