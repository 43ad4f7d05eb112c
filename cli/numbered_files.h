// The files of a model that is stored as `STEM-00001-of-00006.safetensors` without an index.
#pragma once

#include "folder_names.h"

#include "format/checkpoint/model_names.h"

#include <span>
#include <string>
#include <vector>

namespace safetensors::cli {

// The numbered files of one model in a folder.
struct NumberedFiles {
  std::string pattern;  // of their paths, which the library opens as one model
  format::ShardSet set;
};

// Returns the models of several numbered files, for a folder without an index. Files beside `STEM.safetensors` are
// leftovers of an older save, and are left out.
[[nodiscard]] std::vector<NumberedFiles> numbered_files(const std::string& folder, const FolderNames& names);

// Returns the paths of the files that a model lacks, if `paths` are all its numbered files in one folder. Returns
// nothing for a part of the files that are there: somebody has chosen them.
[[nodiscard]] std::vector<std::string> lost_files(std::span<const std::string> paths);

}  // namespace safetensors::cli
