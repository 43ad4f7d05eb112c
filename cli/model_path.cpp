// Looks only at the names in a folder.
#include "model_path.h"

#include "folder_names.h"
#include "folders.h"
#include "standard_input.h"
#include "text/text.h"

#include "file/checkpoint_paths.h"
#include "format/checkpoint/model_names.h"

#include <safetensors/checkpoint.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

namespace safetensors::cli {
namespace {

namespace fs = std::filesystem;

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
  std::vector<std::string> cached = names.folders;
  std::erase_if(cached, [](const std::string& name) { return !name.starts_with("models--"); });
  if (!cached.empty()) return choices("a cache of models", below(folder, cached));
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

std::string model_path(const std::string& argument) {
  std::error_code failed;
  if (argument == kStandardInput || !fs::is_directory(argument, failed)) return argument;
  const Result<std::string> snapshot = file::snapshot_of(argument);
  return snapshot ? *snapshot : argument;
}

Error explain_folder(Error error, const std::string& argument) {
  if ((error.code != Errc::not_found && error.code != Errc::ambiguous_checkpoint) || error.path != argument)
    return error;
  std::error_code failed;
  if (!fs::is_directory(argument, failed)) return error;
  const FolderNames names = names_in(argument);
  const bool models = holds_models(names);
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
  std::error_code failed;
  base::Cancellation cancellation;
  file::CheckpointPaths paths(cancellation);
  if (argument == kStandardInput || !fs::is_directory(folder, failed)) return;
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
