// Groups the numbered files of a folder by the model that their names tell. A `?` per digit is a pattern for the files
// of one model only: the files of `model-x` and of another generation have longer names.
#include "numbered_files.h"

#include <algorithm>
#include <filesystem>
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
  return path_in_folder(escaped_pattern(folder), pattern);
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

std::vector<std::string> lost_files(std::span<const std::string> paths) {
  if (paths.empty()) return {};
  const std::string folder = paths.front().substr(0, paths.front().rfind('/') + 1);
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    if (!path.starts_with(folder)) return {};
    names.push_back(path.substr(folder.size()));
  }
  const std::optional<format::ShardSet> set = format::shard_set(names);
  if (!set) return {};
  std::vector<std::string> missing = set->missing();
  for (std::string& name : missing) {
    std::error_code failed;
    name.insert(0, folder);
    if (std::filesystem::exists(name, failed)) return {};
  }
  return missing;
}

}  // namespace safetensors::cli
