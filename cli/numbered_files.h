// The files of a model that is stored as `STEM-00001-of-00006.safetensors` without an index.
#pragma once

#include "folder_names.h"

#include "format/checkpoint/model_names.h"

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

// Returns the paths, with one pattern in the place of the shards of a model of which others do not exist. A single
// shard stays, and so do those that somebody has chosen from the shards that exist, and those that `STEM.safetensors`
// replaced.
[[nodiscard]] std::vector<std::string> join_incomplete(std::vector<std::string> paths);

}  // namespace safetensors::cli
