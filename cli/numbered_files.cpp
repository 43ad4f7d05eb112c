// Groups the numbered files of a folder by the model that their names tell. A `?` per digit is a pattern for the files
// of one model only: the files of `model-x` and of another generation have longer names.
#include "numbered_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace safetensors::cli {
namespace {

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

}  // namespace

std::vector<NumberedFiles> numbered_files(const std::string& folder, const FolderNames& names) {
  if (std::ranges::any_of(names.files, format::is_index_name)) return {};
  std::vector<NumberedFiles> found;
  for (format::ShardSet& set : format::shard_sets(names.files)) {
    if (set.count == 1 || std::ranges::binary_search(names.files, set.stem + ".safetensors")) continue;
    found.push_back({pattern_of(folder, set.names[0]), std::move(set)});
  }
  return found;
}

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

}  // namespace safetensors::cli
