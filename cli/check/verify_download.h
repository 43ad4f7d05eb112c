// Finds the missing parts of a download, for the subcommand verify: the files that do not exist, and the bytes that are
// missing at the end of files that are too short.
#pragma once

#include "console.h"
#include "json_output.h"

#include <safetensors/checkpoint_index.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace safetensors::cli {

// A file that is missing or too short.
struct FileLack {
  std::string path;
  bool lost = false;          // there is no such file
  std::uint64_t bytes = 0;    // size of the file
  std::uint64_t missing = 0;  // bytes at its end
  std::uint64_t data = 0;     // bytes of the tensors of the complete file, if `exact`
  bool exact = true;          // false: the header is not complete, so at least `missing` bytes are missing
};

// Returns what is missing from a file that failed to open with `error`. Returns nullopt if the file has another fault.
// Reads the header of the file again, with the options `parse`.
[[nodiscard]] std::optional<FileLack> lack_of(const std::string& path, const Error& error, const ParseOptions& parse);

// Returns a text such as "lacks 12 bytes of 96".
[[nodiscard]] std::string lack_text(const FileLack& lack);
// Writes the members "missing_bytes" and "missing_bytes_exact".
void json_lack(Json& json, const FileLack& lack);

// What the files of a model lack.
class Download {
 public:
  // model: the path that the command got.
  Download(std::string model, const ParseOptions& parse) : model_(std::move(model)), parse_(parse) {}

  // Adds a file. If `file` is an error, it says why the file could not be opened.
  void add(const std::string& path, const Result<File>& file);
  // Adds the files that do not exist, and that no index names.
  void add_lost(const std::vector<IndexProblem>& problems);
  // Prints one line per kind of lack, or writes the member "download". Prints nothing for a complete model.
  void print(Console& console, Json* json) const;

 private:
  // Returns the number of missing bytes: those at the end of files that are too short, and those of the tensors in lost
  // files, by total_size of the index. Returns nullopt if the number is unknown or has more than 64 bits.
  [[nodiscard]] std::optional<std::uint64_t> missing_bytes() const;

  std::string model_;
  ParseOptions parse_;
  std::vector<std::string> paths_;
  std::vector<FileLack> lacks_;
  std::uint64_t data_bytes_ = 0;  // bytes of the tensors of the complete files, without lost files
  bool known_ = true;             // whether data_bytes_ counts every file and fits
};

}  // namespace safetensors::cli
