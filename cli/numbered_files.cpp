// Groups the numbered files of a folder by the model that their names tell. A `?` per digit is a pattern for the files
// of one model only: the files of `model-x` and of another generation have longer names.
#include "numbered_files.h"

#include "format/checkpoint/shard_index.h"
#include "format/checkpoint/shard_set.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>

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

// Returns the part of a name before its number, such as "model-".
std::string_view before_number(std::string_view name, const format::NumberedShard& shard) {
  return name.substr(0, static_cast<std::size_t>(shard.number.data() - name.data()));
}

std::string pattern_of(const std::string& folder, const std::string& name) {
  const std::optional<format::NumberedShard> shard = format::parse_numbered_shard(name);
  const std::string_view before = before_number(name, *shard);
  std::string pattern = escaped_pattern(before) + std::string(shard->number.size(), '?');
  pattern += std::string_view(name).substr(before.size() + shard->number.size());
  return path_in_folder(escaped_pattern(folder), pattern);
}

}  // namespace

std::vector<NumberedFiles> numbered_files(const std::string& folder, const FolderNames& names) {
  if (std::ranges::any_of(names.files, is_index_name)) return {};
  std::map<std::string, std::vector<std::string>> groups;
  for (const std::string& name : names.files) {
    const std::optional<format::NumberedShard> shard = format::parse_numbered_shard(name);
    if (!shard) continue;
    const std::string whole = std::string(shard->stem) + ".safetensors";
    if (std::ranges::binary_search(names.files, whole)) continue;
    groups[std::string(before_number(name, *shard)) + "/" + std::string(shard->count)].push_back(name);
  }
  std::vector<NumberedFiles> found;
  for (auto& [key, group] : groups) {
    std::optional<format::ShardSet> set = format::shard_set(group);
    if (!set || set->count == 1) continue;
    const std::string stem(format::stem_of(group.front()));
    found.push_back({pattern_of(folder, group.front()), stem, set->count, group, std::move(set->missing)});
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
  std::optional<format::ShardSet> set = format::shard_set(names);
  if (!set) return {};
  for (std::string& name : set->missing) {
    std::error_code failed;
    name.insert(0, folder);
    if (std::filesystem::exists(name, failed)) return {};
  }
  return std::move(set->missing);
}

}  // namespace safetensors::cli
