// Opens what an argument names, and finds tensors in it, in the same way for every subcommand.
#pragma once

#include "arguments.h"
#include "command.h"
#include "console.h"
#include "json_output.h"
#include "standard_input.h"

#include <safetensors/checkpoint.h>
#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/header.h>

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

// A tensor, and the index of its file in Input::files().
struct Listed {
  const TensorInfo* info;
  std::size_t file;
};

// A file, a checkpoint of several files (a folder, an index, a pattern), or standard input. Nothing maps the
// files.
class Input {
 public:
  // White space before a header's `{` is accepted with a notice. data: how the data of a pipe on standard input is
  // used. With PipeData::part, a single file or standard input may lack data at its end, and a notice says how much.
  // Errors: those of Checkpoint::open, and of open_standard_input(). The path of the error is that of the file at
  // fault, if there is one.
  [[nodiscard]] static Result<Input> open(const std::string& argument, Console& console, const ParseOptions& parse = {},
                                          PipeData data = PipeData::skip);
  // Opens several arguments as one set of tensors. None may be standard input.
  [[nodiscard]] static Result<Input> open(std::span<const std::string> arguments, Console& console,
                                          const ParseOptions& parse = {});

  [[nodiscard]] std::span<const File> files() const { return files_; }
  // Returns whether the argument is a file itself, and not a folder, an index or a pattern of files.
  [[nodiscard]] bool is_file() const { return is_file_; }
  // The missing data, if the input is only the first bytes of a file.
  [[nodiscard]] const std::optional<MissingData>& missing() const { return missing_; }
  // The set of tensors. Null for standard input, and for the first bytes of a file.
  [[nodiscard]] const Checkpoint* checkpoint() const { return checkpoint_ ? &*checkpoint_ : nullptr; }
  // The tensors of the checkpoint, or of the file on standard input.
  [[nodiscard]] Tensors set() const { return checkpoint_ ? checkpoint_->tensors() : files_[0].tensors(); }
  // The name of a file for display, not escaped: its path in the folder that all files have in common.
  [[nodiscard]] std::string file_name(std::size_t file) const;
  // The visible tensors, file after file, by their offsets.
  [[nodiscard]] std::vector<Listed> tensors() const;
  // Finds the tensor `name`, or else the tensor whose escaped name, as the commands show it, is `name`. Error:
  // not_found.
  [[nodiscard]] Result<Listed> find(std::string_view name) const;

 private:
  explicit Input(Checkpoint checkpoint, bool is_file);
  Input(const File& file, std::optional<MissingData> missing) : files_{file}, is_file_(true), missing_(missing) {}

  std::optional<Checkpoint> checkpoint_;
  std::vector<File> files_;
  std::size_t folder_ = 0;  // length of the part that all paths have in common, up to a separator
  bool is_file_;
  std::optional<MissingData> missing_;
};

// Input::tensors() without the files.
[[nodiscard]] std::vector<const TensorInfo*> infos(const Input& input);

inline constexpr std::size_t kMaxText = std::size_t{256} << 20;  // bytes

// Reads a regular file of at most 256 MiB. what: the content, for the error. Errors, with the path: those of
// os::RegularFile, and invalid_argument.
[[nodiscard]] Result<std::string> read_text(const std::string& path, const char* what);

// The name for messages: the argument, or "standard input".
[[nodiscard]] std::string shown_path(const std::string& argument);
// Writes the message of an error of Input::open(), with the path of the file at fault.
Exit input_error(const std::string& argument, const Error& error, Console& console);

// Runs `one` for each path and returns the highest exit code.
// as_json: the output is one JSON document of this command. Its field "files" is an array with one object per path, and
// `one` adds fields to the object of its path. Without as_json, `json` is null. An error of `one` becomes a message and
// a member of its object.
Exit for_each_file(std::string_view command, std::span<const std::string> paths, bool as_json, Console& console,
                   const std::function<Result<Exit>(const std::string& path, Json* json)>& one);

// Returns the error of NewFile::check(). Throws UsageError if the output is empty or "-", if it exists and `replace` is
// false, or if it is the argument, one of the files of the input, or its index. Compares devices and inodes, so it also
// finds links.
[[nodiscard]] Status check_output(const std::string& output, bool replace, const std::string& argument,
                                  const Input& input);

// Writes the member "metadata": an object, or null. lines: each pair begins a line.
void json_metadata(Json& json, const Metadata& metadata, bool lines = false);
// Writes the member "error", and before it the member "file" if another path than the argument is at fault.
void json_input_error(Json& json, const std::string& argument, const Error& error);
// Writes the sizes of a file and what data is missing, or the member "files" of a checkpoint: the path and the sizes of
// each file.
void json_files(Json& json, const Input& input);

// What a file or model without data holds: "no tensor" or "only empty tensors". Otherwise empty.
[[nodiscard]] std::string_view emptiness(std::uint64_t tensors, std::uint64_t bytes);

// "2, 3"
[[nodiscard]] std::string dimensions_text(ShapeView shape, std::string_view separator = ", ",
                                          std::size_t limit = SIZE_MAX);
// "[2,3]". A long shape is cut.
[[nodiscard]] std::string shape_text(ShapeView shape);

// The largest power of two up to 64 KiB that divides an offset.
[[nodiscard]] std::uint64_t alignment_of(std::uint64_t offset);

// The number of elements. 0 if the dtype is unknown.
[[nodiscard]] std::uint64_t parameters(const TensorInfo& tensor);

// Sums over tensors.
struct Totals {
  std::uint64_t tensors = 0;
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;

  void add(const Totals& other) {
    tensors += other.tensors;
    parameters += other.parameters;
    bytes += other.bytes;
  }
  void add(const TensorInfo& tensor) { add({1, cli::parameters(tensor), tensor.nbytes()}); }
};

// Returns whether the elements of a tensor must be copied before they can be used: its offset in the file is not a
// multiple of the size of an element.
[[nodiscard]] bool is_misaligned(const TensorInfo& tensor);

// The row of the option in the table of a command.
inline constexpr Option kAcceptOption = {"--accept", "LIST",
                                         "accept faults: unknown-dtypes, unused-bytes, or both with a comma"};

// The value of --accept. Throws UsageError.
[[nodiscard]] Accept accept_of(const Arguments& given);

// Writes the member "tolerated" if the reader accepted faults.
void json_tolerated(Json& json, const Header& header);

// New names by old names.
using NameMap = std::map<std::string, std::string, std::less<>>;

// Reads lines of OLD, a tab and NEW. Every OLD must be a tensor of the input, whose argument is `input_path`. Errors,
// with the path of the list: open_failed, read_failed, invalid_argument, not_found.
[[nodiscard]] Result<NameMap> read_name_map(const std::string& path, const Input& input, const std::string& input_path);

}  // namespace safetensors::cli
