// Looks at the names in a folder only, and reads only refs/main of a cache. This file comes from strangers: its text is
// used only if it is a plain name of a folder beside.
#include "model_path.h"

#include "folder_names.h"
#include "folders.h"
#include "standard_input.h"
#include "text/text.h"

#include "format/checkpoint/model_names.h"
#include "os/regular_file.h"

#include <safetensors/checkpoint.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

namespace safetensors::cli {
namespace {

namespace fs = std::filesystem;

bool has_folder(const FolderNames& names, const std::string& name) {
  return std::ranges::binary_search(names.folders, name);
}

bool is_cached_model(const FolderNames& names) {
  return has_folder(names, "refs") && has_folder(names, "snapshots");
}

// Returns the revision in refs/main. Returns nullopt if it is not a plain name.
std::optional<std::string> main_revision(const std::string& folder) {
  constexpr std::uint64_t kMaxBytes = 256;
  const auto file = os::RegularFile::open(path_in_folder(folder, "refs/main"));
  if (!file || (*file)->identity().size > kMaxBytes) return std::nullopt;
  std::string text(static_cast<std::size_t>((*file)->identity().size), '\0');
  if (!os::read_exactly(**file, 0, std::as_writable_bytes(std::span(text)))) return std::nullopt;
  text.erase(text.find_last_not_of(" \r\n") + 1);
  constexpr std::string_view kPlain = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-";
  if (text.empty() || text.front() == '.' || text.find_first_not_of(kPlain) != text.npos) return std::nullopt;
  return text;
}

// Returns the snapshot of a model in the cache. Returns nullopt if there are several and refs/main names none of them.
std::optional<std::string> snapshot_of(const std::string& folder) {
  const std::string snapshots = path_in_folder(folder, "snapshots");
  const FolderNames names = names_in(snapshots);
  const std::optional<std::string> main = main_revision(folder);
  if (main && has_folder(names, *main)) return path_in_folder(snapshots, *main);
  if (names.folders.size() == 1) return path_in_folder(snapshots, names.folders.front());
  return std::nullopt;
}

// "`sd/unet`, `sd/vae` and 3 more"
std::string quoted(const std::vector<std::string>& paths) {
  constexpr std::size_t kNamed = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(paths.size(), kNamed); ++i)
    text += formatted("{}`{}`", i == 0 ? "" : ", ", printable(paths[i]));
  return paths.size() > kNamed ? formatted("{} and {} more", text, paths.size() - kNamed) : text;
}

std::string choices(std::string_view what, const std::vector<std::string>& paths) {
  return formatted("{}, name one of them: {}", what, quoted(paths));
}

std::vector<std::string> below(const std::string& folder, const std::vector<std::string>& names) {
  std::vector<std::string> paths;
  paths.reserve(names.size());
  for (const std::string& name : names) paths.push_back(path_in_folder(folder, name));
  return paths;
}

// Returns an empty text if there is nothing to say.
std::string without_models(const std::string& folder, const FolderNames& names) {
  if (is_cached_model(names)) {
    const std::string snapshots = path_in_folder(folder, "snapshots");
    const std::vector<std::string> list = names_in(snapshots).folders;
    if (list.size() > 1)
      return choices(formatted("a folder of {} snapshots without refs/main", list.size()), below(snapshots, list));
  }
  std::vector<std::string> cached = names.folders;
  std::erase_if(cached, [](const std::string& name) { return !name.starts_with("models--"); });
  if (!cached.empty()) return choices("a cache of models", below(folder, cached));
  const std::vector<std::string> models = expand_folders({folder}, false);
  if (models.size() == 1 && models.front() == folder) return {};
  return choices("a folder of models in folders", models);
}

}  // namespace

std::string model_path(const std::string& argument) {
  std::error_code failed;
  if (argument == kStandardInput || !fs::is_directory(argument, failed)) return argument;
  const FolderNames names = names_in(argument);
  if (is_cached_model(names) && !holds_models(names)) return snapshot_of(argument).value_or(argument);
  return argument;
}

Error explain_folder(Error error, const std::string& argument) {
  if ((error.code != Errc::not_found && error.code != Errc::ambiguous_checkpoint) || error.path != argument)
    return error;
  std::error_code failed;
  if (!fs::is_directory(argument, failed)) return error;
  const FolderNames names = names_in(argument);
  const std::string text = holds_models(names) ? std::string() : without_models(argument, names);
  if (!text.empty()) error.message = text;
  const bool files =
      error.code == Errc::ambiguous_checkpoint && std::ranges::none_of(names.files, format::is_index_name);
  // Variants of one model have the same tensors.
  if (text.empty() && files && expand_folders({argument}, false) == std::vector{argument})
    error.message += formatted(" (all as one model: '{}' in quotes, or make an index: safetensors index)",
                               printable(path_in_folder(argument, "*.safetensors")));
  return error;
}

}  // namespace safetensors::cli
