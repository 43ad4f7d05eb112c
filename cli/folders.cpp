// Finds the models below a folder. A folder may hold variants of one model, such as `model.safetensors` and
// `model.fp16.safetensors`, each of one file or with an index of its own. So each index is a path, and each file that
// no index names is one, too. Numbered files without an index are one path, a pattern. If this gives one path, and the
// library opens the folder, the path of the folder is used instead.
#include "folders.h"

#include "folder_names.h"
#include "model_path.h"
#include "numbered_files.h"
#include "standard_input.h"
#include "text/text.h"

#include <safetensors/checkpoint.h>

#include "base/glob.h"
#include "format/checkpoint/model_names.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

namespace safetensors::cli {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kMaxDepth = 32;

// Returns the models and files of one folder, without the folders below it. partial: numbered files of which some are
// missing are one model, too.
std::vector<std::string> models_in(const std::string& folder, const FolderNames& names, bool partial) {
  std::vector<std::string> found;
  std::set<std::string> used;
  for (const std::string& name : names.files) {
    if (!format::is_index_name(name)) continue;
    found.push_back(path_in_folder(folder, name));
    const Result<std::vector<std::string>> files = Checkpoint::find_files(found.back());
    if (files) used.insert(files->begin(), files->end());
  }
  for (const NumberedFiles& model : numbered_files(folder, names)) {
    if (!partial && !model.set.missing().empty()) continue;
    found.push_back(model.pattern);
    for (const std::string& name : model.set.names) used.insert(path_in_folder(folder, name));
  }
  for (const std::string& name : names.files) {
    const std::string path = path_in_folder(folder, name);
    if (name.ends_with(".safetensors") && !used.contains(path)) found.push_back(path);
  }
  std::ranges::sort(found);
  if (found.size() == 1 && Checkpoint::find_files(folder)) found = {folder};
  return found;
}

// The paths for one folder after the other.
class Expansion {
 public:
  explicit Expansion(FolderCheck* check) : check_(check) {}

  // Adds the models of a folder and of the folders below it. A folder that cannot be listed, or that is too deep, is
  // added itself: the verb then reports its error.
  void add_below(const std::string& folder, unsigned depth) {
    const FolderNames names = names_in(folder);
    if (!names.whole || depth == kMaxDepth) return paths_.push_back(folder);
    add(models_in(folder, names, partial()));
    for (const std::string& name : names.folders) add_below(path_in_folder(folder, name), depth + 1);
  }

  // Adds the models in the folders below, or the files of an incomplete model. Adds nothing for any other folder.
  void add_components(const std::string& folder) {
    const FolderNames names = names_in(folder);
    const bool models = holds_models(names);
    std::vector<std::string> found = models_in(folder, names, partial());
    if (models && partial() && add_model(folder, found)) return;
    // Otherwise the verb opens the folder itself, to name the several models in it in an error.
    if (models && (!partial() || found.size() != 1)) found.clear();
    add(found);
    if (models) return;
    for (const std::string& name : names.folders) {
      const std::string below = path_in_folder(folder, name);
      const FolderNames inside = names_in(below);
      if (!inside.whole) paths_.push_back(below);
      const std::vector<std::string> models_below = models_in(below, inside, partial());
      if (holds_models(inside) && !add_model(below, models_below)) add(models_below);
    }
  }

  [[nodiscard]] std::vector<std::string> take() { return std::move(paths_); }

 private:
  [[nodiscard]] bool partial() const { return check_ != nullptr; }
  // Adds a folder that the library opens as a model, and, if every file is to be checked, the variants beside the
  // model.
  bool add_model(const std::string& folder, std::vector<std::string> found) {
    const Result<std::vector<std::string>> own = Checkpoint::find_files(folder);
    if (!own) return false;
    paths_.push_back(folder);
    std::erase_if(found, [&](const std::string& path) { return !partial() || !is_variant_of(path, own->front()); });
    add(found);
    return true;
  }
  void add(const std::vector<std::string>& found) { paths_.insert(paths_.end(), found.begin(), found.end()); }
  FolderCheck* check_;
  std::vector<std::string> paths_;
};

// Counts the folders below a model that hold models.
void note_below(const std::string& folder, FolderCheck& check) {
  const FolderNames names = names_in(folder);
  if (!holds_models(names)) return;
  const auto count = std::ranges::count_if(
      names.folders, [&](const std::string& name) { return holds_models(names_in(path_in_folder(folder, name))); });
  if (count > 0) check.below.push_back({folder, static_cast<std::size_t>(count)});
}

}  // namespace

void FolderCheck::notice(Console& console) const {
  for (const Below& one : below)
    console.message(formatted("{}: notice: {} below {} safetensors files and {} not checked: -R checks them",
                              printable(one.folder), counted(one.count, "folder"), one.count == 1 ? "holds" : "hold",
                              one.count == 1 ? "was" : "were"));
}

bool is_variant_of(const std::string& path, const std::string& file) {
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  const auto index = format::parse_index_name(name);
  const std::string stem(format::stem_of(file.substr(file.rfind('/') + 1)));
  const std::string own = index ? index->stem() : std::string(format::stem_of(name));
  return own != stem && own.starts_with(stem + ".");
}

std::vector<std::string> expand_folders(const std::vector<std::string>& paths, bool recursive, FolderCheck* check) {
  std::vector<std::string> expanded;
  for (const std::string& given : paths) {
    const std::string path = recursive ? given : model_path(given);
    if (check != nullptr && !recursive && given != kStandardInput) note_below(given, *check);
    std::error_code failed;
    Expansion expansion(check);
    if (path != kStandardInput && fs::is_directory(path, failed)) {
      if (recursive) {
        expansion.add_below(path, 0);
      } else {
        expansion.add_components(path);
      }
    }
    std::vector<std::string> found = expansion.take();
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
