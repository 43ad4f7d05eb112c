// Finds the models below a folder, from the names in it. A folder may hold variants of one model, such as
// `model.safetensors` and `model.fp16.safetensors`, each of one file or with an index of its own. So each index is a
// path, and each file that no index names is one, too. Numbered files without an index are one path, a pattern: a `?`
// per digit is for the files of one model only, because the files of `model-x` and of another generation have longer
// names. If this gives one path, and the library opens the folder, the path of the folder is used instead.
#include "folders.h"

#include "standard_input.h"
#include "text/text.h"

#include <safetensors/checkpoint.h>

#include "base/glob.h"
#include "file/checkpoint_paths.h"
#include "format/checkpoint/model_names.h"
#include "os/directory.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

namespace safetensors::cli {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kMaxDepth = 32;

// Returns file::snapshot_of() for a folder. Returns any other argument, and a folder with an error, as it is.
std::string model_path(const std::string& argument) {
  const Result<std::string> snapshot = is_folder(argument) ? file::snapshot_of(argument) : argument;
  return snapshot ? *snapshot : argument;
}

// Returns a pattern that matches the text alone.
std::string escaped_pattern(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    const bool special = c == '*' || c == '?' || c == '[' || c == '\\';
    pattern += special ? std::string{'[', c, ']'} : std::string(1, c);
  }
  return pattern;
}

std::string pattern_of(const std::string& folder, const std::string& name) {
  const std::string_view number = format::parse_shard_name(name)->number;
  const auto begin = static_cast<std::size_t>(number.data() - name.data());
  std::string pattern = escaped_pattern(name.substr(0, begin)) + std::string(number.size(), '?');
  pattern += escaped_pattern(name.substr(begin + number.size()));
  return folder.empty() ? pattern : path_in_folder(escaped_pattern(folder), pattern);
}

// Returns whether a file, or an index, is a variant of the model that has this file: "model.fp16.safetensors".
bool is_variant_of(const std::string& path, const std::string& file) {
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  const auto index = format::parse_index_name(name);
  const std::string stem(format::stem_of(file.substr(file.rfind('/') + 1)));
  const std::string own = index ? index->stem() : std::string(format::stem_of(name));
  return own != stem && own.starts_with(stem + ".");
}

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
  const bool indexed = std::ranges::any_of(names.files, format::is_index_name);
  for (const format::ShardSet& set : indexed ? std::vector<format::ShardSet>() : format::shard_sets(names.files)) {
    // Files beside `STEM.safetensors` are leftovers of an older save.
    const bool replaced = std::ranges::binary_search(names.files, set.stem + ".safetensors");
    if (set.count == 1 || replaced || (!partial && !set.complete())) continue;
    found.push_back(pattern_of(folder, set.names[0]));
    for (const std::string& name : set.names) used.insert(path_in_folder(folder, name));
  }
  for (const std::string& name : names.files) {
    const std::string path = path_in_folder(folder, name);
    if (name.ends_with(".safetensors") && !used.contains(path)) found.push_back(path);
  }
  std::ranges::sort(found);
  if (found.size() == 1 && Checkpoint::find_files(folder)) found = {folder};
  return found;
}

using Paths = std::vector<std::string>;

void append(Paths& paths, const Paths& found) {
  paths.insert(paths.end(), found.begin(), found.end());
}

// Adds the models of a folder and of the folders below it. A folder that cannot be listed, or that is too deep, is
// added itself: the verb then reports its error. partial: see models_in().
void add_below(Paths& paths, const std::string& folder, bool partial, unsigned depth = 0) {
  const FolderNames names = names_in(folder);
  if (names.failed || depth == kMaxDepth) return paths.push_back(folder);
  append(paths, models_in(folder, names, partial));
  for (const std::string& name : names.folders) add_below(paths, path_in_folder(folder, name), partial, depth + 1);
}

// Adds a folder that the library opens as a model, and, if every file is to be checked, the variants beside the model.
// found: the models in the folder.
bool add_model(Paths& paths, const std::string& folder, Paths found, bool partial) {
  const Result<Paths> own = Checkpoint::find_files(folder);
  if (!own) return false;
  paths.push_back(folder);
  if (!partial || own->empty()) return true;
  std::erase_if(found, [&](const std::string& path) { return !is_variant_of(path, own->front()); });
  append(paths, found);
  return true;
}

// Adds the models in the folders below, or the files of an incomplete model. Adds nothing for any other folder.
void add_components(Paths& paths, const std::string& folder, bool partial) {
  const FolderNames names = names_in(folder);
  const Paths found = models_in(folder, names, partial);
  if (names.holds_models()) {
    // With several models, the verb opens the folder itself, to name them in an error.
    if (partial && !add_model(paths, folder, found, partial) && found.size() == 1) append(paths, found);
    return;
  }
  append(paths, found);
  for (const std::string& name : names.folders) {
    const std::string below = path_in_folder(folder, name);
    const FolderNames inside = names_in(below);
    if (inside.failed) paths.push_back(below);
    const Paths models_below = models_in(below, inside, partial);
    if (inside.holds_models() && !add_model(paths, below, models_below, partial)) append(paths, models_below);
  }
}

// Replaces each pattern that matches files in different folders by these files.
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

// Returns the paths, with one pattern in the place of the shards of a model of which others do not exist. A single
// shard stays, and so do those that somebody has chosen from the shards that exist, and those that `STEM.safetensors`
// replaced.
std::vector<std::string> join_incomplete(std::vector<std::string> paths) {
  std::map<std::string, std::vector<std::string>> folders;  // with the names in them
  for (const std::string& path : paths) {
    const std::size_t name = path.rfind('/') + 1;
    folders[path.substr(0, name)].push_back(path.substr(name));
  }
  for (const auto& entry : folders) {
    const std::string& folder = entry.first;
    for (const format::ShardSet& set : format::shard_sets(entry.second)) {
      std::vector<std::string> others = set.missing();
      if (set.names.size() < 2 || others.empty()) continue;
      others.push_back(set.stem + ".safetensors");  // which replaced the shards
      std::error_code failed;
      const auto exists = [&](const std::string& name) { return std::filesystem::exists(folder + name, failed); };
      if (std::ranges::any_of(others, exists)) continue;
      *std::ranges::find(paths, folder + set.names[0]) = pattern_of(folder, set.names[0]);
      std::erase_if(paths, [&](const std::string& path) {
        return path.starts_with(folder) && std::ranges::find(set.names, path.substr(folder.size())) != set.names.end();
      });
    }
  }
  return paths;
}

// "`sd/unet`, `sd/vae` and 3 more"
std::string quoted(const std::vector<std::string>& paths) {
  return first_texts(paths, 8, [](const std::string& path) { return formatted("`{}`", printable(path)); });
}

std::string choices(std::string_view what, const std::vector<std::string>& paths) {
  return formatted("{}, name one of them: {}", what, quoted(paths));
}

// Returns an empty text if there is nothing to say.
std::string without_models(const std::string& folder, const FolderNames& names) {
  std::vector<std::string> cached;
  for (const std::string& name : names.folders)
    if (name.starts_with("models--")) cached.push_back(path_in_folder(folder, name));
  if (!cached.empty()) return choices("a cache of models", cached);
  const std::vector<std::string> models = expand_folders({folder}, false);
  if (models.size() == 1 && models.front() == folder) return {};
  return choices("a folder of models in folders", models);
}

// Returns whether programs know a file by this name as a model, even if an index beside it does not name it.
bool is_known(std::string_view name) {
  constexpr std::string_view kKnown[] = {"model.safetensors", "diffusion_pytorch_model.safetensors",
                                         "consolidated.safetensors", "adapter_model.safetensors"};
  return std::ranges::find(kKnown, name) != std::end(kKnown);
}

}  // namespace

bool FolderNames::holds_models() const {
  return std::ranges::any_of(
      files, [](const std::string& name) { return name.ends_with(".safetensors") || format::is_index_name(name); });
}

bool is_folder(const std::string& path) {
  std::error_code failed;
  return path != kStandardInput && fs::is_directory(path, failed);
}

FolderNames names_in(const std::string& folder) {
  const Result<std::vector<std::string>> all = os::list_directory(folder);
  if (!all) return {.files = {}, .folders = {}, .failed = all.error()};
  FolderNames names;
  for (const std::string& name : *all) {
    std::error_code unknown;
    const fs::file_status status = fs::symlink_status(path_in_folder(folder, name), unknown);
    (fs::is_directory(status) ? names.folders : names.files).push_back(name);
  }
  return names;
}

std::string path_in_folder(const std::string& folder, const std::string& name) {
  return folder.ends_with('/') ? folder + name : folder + "/" + name;
}

std::vector<std::string> expand_folders(const std::vector<std::string>& paths, bool recursive, bool check) {
  std::vector<std::string> expanded;
  for (const std::string& given : check ? join_incomplete(expand_patterns(paths)) : paths) {
    const std::string path = recursive ? given : model_path(given);
    const std::size_t before = expanded.size();
    if (is_folder(path)) recursive ? add_below(expanded, path, check) : add_components(expanded, path, check);
    if (expanded.size() == before) expanded.push_back(path);
  }
  return expanded;
}

void notice_below(const std::string& folder, Console& console) {
  const FolderNames names = names_in(folder);
  if (!names.holds_models()) return;
  const auto count = std::ranges::count_if(
      names.folders, [&](const std::string& name) { return names_in(path_in_folder(folder, name)).holds_models(); });
  if (count > 0)
    console.message(formatted("{}: notice: {} below {} safetensors files and {} not checked: -R checks them",
                              printable(folder), counted(static_cast<std::uint64_t>(count), "folder"),
                              count == 1 ? "holds" : "hold", count == 1 ? "was" : "were"));
}

Error explain_folder(Error error, const std::string& argument) {
  if ((error.code != Errc::not_found && error.code != Errc::ambiguous_checkpoint) || error.path != argument)
    return error;
  if (!is_folder(argument)) return error;
  const FolderNames names = names_in(argument);
  const bool models = names.holds_models();
  const std::string text = models ? std::string() : without_models(argument, names);
  if (!text.empty()) error.message = text;
  const bool files =
      error.code == Errc::ambiguous_checkpoint && std::ranges::none_of(names.files, format::is_index_name);
  // Variants of one model have the same tensors.
  if (models && files && expand_folders({argument}, false) == std::vector{argument})
    error.message += formatted(" (all as one model: '{}' in quotes, or make an index: safetensors index)",
                               printable(path_in_folder(argument, "*.safetensors")));
  return error;
}

void notice_beside(const std::string& argument, Console& console, bool indexed) {
  const std::string folder = model_path(argument);
  base::Cancellation cancellation;
  file::CheckpointPaths paths(cancellation);
  if (!is_folder(folder)) return;
  std::vector<std::string> names = names_in(folder).files;
  std::erase_if(names, [](const std::string& name) {
    return !format::is_index_name(name) && (!name.ends_with(".safetensors") || format::parse_shard_name(name));
  });
  if (names.size() < 2 || !paths.add(folder) || paths.size() == 0) return;
  std::vector<std::string> read;
  for (std::size_t i = 0; i < paths.size(); ++i) read.push_back(paths.path(paths[i]));
  if (paths.index() != nullptr) read.insert(read.begin(), paths.index()->path);
  std::erase_if(names, [&](const std::string& name) {
    const bool quiet = paths.index() != nullptr && !format::is_index_name(name) && (!indexed || !is_known(name));
    return quiet || std::ranges::find(read, path_in_folder(folder, name)) != read.end() ||
           is_variant_of(name, read.back());
  });
  if (!names.empty())
    console.message(formatted("{}: notice: {} is the model, not {} beside it", printable(folder),
                              quoted({read.front().substr(read.front().rfind('/') + 1)}), quoted(names)));
}

}  // namespace safetensors::cli
