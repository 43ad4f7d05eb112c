// The files beside a model that belong to it, such as config.json and tokenizer.json. For the verbs that write a
// folder.
#pragma once

#include "console.h"
#include "input.h"

#include <safetensors/error.h>

#include <string>
#include <vector>

namespace safetensors::cli {

struct SideFile {
  std::string name;
  std::string path;  // of the regular file
};

struct SideFiles {
  std::vector<SideFile> files;       // sorted by name
  std::vector<std::string> refused;  // names of symlinks that lead out of the folder, or to no regular file, sorted
};

// Finds the side files in the folder of the input. These are regular files whose names are not those of weights
// or indexes, and symlinks to such files in the folder or in the blobs of the same model in the cache of
// huggingface_hub. Hidden files do not count. A file given by itself has side files only if there is a configuration
// beside it. An `output` that is the same folder needs none. Error: open_failed if the folder cannot be listed.
[[nodiscard]] Result<SideFiles> find_side_files(const Input& input, const std::string& output);

// Returns the error that a copy into the folder would have: a file exists there and `replace` is false, or it is not a
// regular file.
[[nodiscard]] Status check_side_files(const SideFiles& files, const std::string& folder, bool replace);

// Copies the files into a folder. replace: whether old files are replaced. A signal stops the copy. Errors, with the
// path of the file: open_failed, not_regular_file, read_failed, and those of NewFile.
[[nodiscard]] Status copy_side_files(const SideFiles& files, const std::string& folder, bool replace);

}  // namespace safetensors::cli
