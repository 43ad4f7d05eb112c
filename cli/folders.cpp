// Finds the models below a folder. A folder may hold variants of one model, such as `model.safetensors` and
// `model.fp16.safetensors`, each of one file or with an index of its own. So each index is a path, and each file that
// no index names is one, too. If this gives one path, the path of the folder is used instead.
#include "folders.h"

#include "standard_input.h"

#include <safetensors/checkpoint.h>

#include "base/glob.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

namespace safetensors::cli {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kMaxDepth = 32;

struct Names {
  std::vector<std::string> files;
  std::vector<std::string> folders;
  bool whole = true;  // whether the folder could be listed
};

Names names_in(const std::string& folder) {
  Names names;
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

// Returns the models and files of one folder, without the folders below it.
std::vector<std::string> models_in(const std::string& folder, const Names& names) {
  std::vector<std::string> found;
  std::set<std::string> indexed;
  for (const std::string& name : names.files) {
    if (!is_index_name(name)) continue;
    found.push_back(path_in_folder(folder, name));
    const Result<std::vector<std::string>> files = Checkpoint::find_files(found.back());
    if (files) indexed.insert(files->begin(), files->end());
  }
  for (const std::string& name : names.files) {
    const std::string path = path_in_folder(folder, name);
    if (name.ends_with(".safetensors") && !indexed.contains(path)) found.push_back(path);
  }
  std::ranges::sort(found);
  if (found.size() == 1 && Checkpoint::find_files(folder)) found = {folder};
  return found;
}

// Adds the models of a folder and of the folders below it. A folder that cannot be listed, or that is too deep, is
// added itself: the verb then reports its error.
void add_below(const std::string& folder, unsigned depth, std::vector<std::string>& found) {
  const Names names = names_in(folder);
  if (!names.whole || depth == kMaxDepth) return found.push_back(folder);
  for (std::string& path : models_in(folder, names)) found.push_back(std::move(path));
  for (const std::string& name : names.folders) add_below(path_in_folder(folder, name), depth + 1, found);
}

// Returns the models of a pipeline. Returns nothing for any other folder.
std::vector<std::string> components_of(const std::string& folder) {
  const Names names = names_in(folder);
  const bool pipeline = std::ranges::find(names.files, "model_index.json") != names.files.end();
  const bool models = std::ranges::any_of(
      names.files, [](const std::string& name) { return name.ends_with(".safetensors") || is_index_name(name); });
  // The verb opens the folder itself: as a model, or to name the several models in it in an error.
  if (models && (!pipeline || Checkpoint::find_files(folder))) return {};
  std::vector<std::string> found = models_in(folder, names);
  for (const std::string& name : names.folders) {
    const std::string below = path_in_folder(folder, name);
    const Names inside = names_in(below);
    if (!inside.whole) found.push_back(below);
    for (std::string& path : models_in(below, inside)) found.push_back(std::move(path));
  }
  return found;
}

}  // namespace

std::string path_in_folder(const std::string& folder, const std::string& name) {
  return folder.ends_with('/') ? folder + name : folder + "/" + name;
}

bool is_index_name(std::string_view name) {
  return name.ends_with(".json") && name.find(".safetensors.index.") != std::string_view::npos;
}

std::vector<std::string> expand_folders(const std::vector<std::string>& paths, bool recursive) {
  std::vector<std::string> expanded;
  for (const std::string& path : paths) {
    std::error_code failed;
    std::vector<std::string> found;
    if (path != kStandardInput && fs::is_directory(path, failed)) {
      if (recursive) {
        add_below(path, 0, found);
      } else {
        found = components_of(path);
      }
    }
    if (found.empty()) found.push_back(path);
    expanded.insert(expanded.end(), found.begin(), found.end());
  }
  return expanded;
}

std::vector<std::string> expand_patterns(const std::vector<std::string>& paths) {
  std::vector<std::string> expanded;
  for (const std::string& path : paths) {
    std::error_code failed;
    const bool is_pattern = path != kStandardInput && base::is_glob(path) && !fs::exists(path, failed);
    const Result<std::vector<std::string>> files =
        is_pattern ? Checkpoint::find_files(path) : Result<std::vector<std::string>>(std::vector<std::string>());
    const bool apart = files && std::ranges::any_of(*files, [&](const std::string& file) {
                         return fs::path(file).parent_path() != fs::path(files->front()).parent_path();
                       });
    if (apart) expanded.insert(expanded.end(), files->begin(), files->end());
    if (!apart) expanded.push_back(path);
  }
  return expanded;
}

}  // namespace safetensors::cli
