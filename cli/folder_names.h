// The names in a folder, sorted into those that hold models and those that do not.
#pragma once

#include <string>
#include <vector>

namespace safetensors::cli {

struct FolderNames {
  std::vector<std::string> files;    // and symlinks, sorted
  std::vector<std::string> folders;  // sorted; symlinks to folders are among the files
  bool whole = true;                 // whether the folder could be listed
};
// Lists a folder without its hidden names.
[[nodiscard]] FolderNames names_in(const std::string& folder);

[[nodiscard]] std::string path_in_folder(const std::string& folder, const std::string& name);

// Returns whether one of the files is an index or a safetensors file by its name.
[[nodiscard]] bool holds_models(const FolderNames& names);

}  // namespace safetensors::cli
