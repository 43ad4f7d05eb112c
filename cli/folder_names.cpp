// Lists one folder, and follows no symlink to a folder: it could lead in a circle.
#include "folder_names.h"

#include "format/checkpoint/model_names.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace safetensors::cli {

FolderNames names_in(const std::string& folder) {
  namespace fs = std::filesystem;
  FolderNames names;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.')) continue;
    std::error_code unknown;
    if (entry->symlink_status(unknown).type() == fs::file_type::directory) {
      names.folders.push_back(name);
    } else {
      names.files.push_back(name);
    }
  }
  names.whole = !failed;
  std::ranges::sort(names.files);
  std::ranges::sort(names.folders);
  return names;
}

std::string path_in_folder(const std::string& folder, const std::string& name) {
  return folder.ends_with('/') ? folder + name : folder + "/" + name;
}

bool holds_models(const FolderNames& names) {
  return std::ranges::any_of(names.files, [](const std::string& name) {
    return name.ends_with(".safetensors") || format::is_index_name(name);
  });
}

}  // namespace safetensors::cli
