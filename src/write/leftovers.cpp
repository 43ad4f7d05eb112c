// Tells the shards of the model in a folder from those of killed writers. The index decides: a writer gives its shards
// their names, renames its index, and then removes the older shards. So shards that no index names belong to a writer
// that holds the lock of the folder, or to one that was killed.
#include "write/leftovers.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/cancellation.h"
#include "file/checkpoint_paths.h"
#include "format/checkpoint/model_names.h"
#include "os/directory.h"
#include "os/file_status.h"
#include "os/path.h"

namespace safetensors::write {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::string index_of_stem(const std::vector<std::string>& listed, std::string_view stem, std::string index) {
  if (contains(listed, index)) return index;
  const auto found = std::ranges::find_if(listed, [&](const std::string& name) {
    const auto parts = format::parse_index_name(name);
    return parts && parts->stem() == stem;
  });
  return found == listed.end() ? index : *found;
}

NamedFiles read_named_files(const std::string& folder, const std::vector<std::string>& listed,
                            std::string_view model_index) {
  NamedFiles found;
  base::Cancellation cancellation;
  for (const std::string& name : listed) {
    if (!format::is_index_name(name)) continue;
    const auto index = file::read_index(os::join_path(folder, name), cancellation);
    found.certain = found.certain && index;
    const bool own = name == model_index;
    found.has_index = found.has_index || own;
    found.unreadable = found.unreadable || (own && !index && index.error().code != Errc::invalid_index);
    for (std::uint32_t i = 0; index && i < (*index)->shard_count(); ++i)
      (own ? found.of_model : found.of_others).emplace((*index)->shard(i));
  }
  return found;
}

std::vector<std::string> find_leftovers(const NamedFiles& named, const std::vector<std::string>& listed,
                                        std::string_view stem) {
  if (!named.certain) return {};
  if (!named.has_index && !contains(listed, std::string(stem) + ".safetensors")) return {};
  const std::string stem_key = os::name_key(stem);
  std::set<std::string, ShardLess> keys;  // of the named files
  for (const auto* names : {&named.of_model, &named.of_others}) {
    for (const std::string& name : *names) keys.insert(os::name_key(name));
  }
  std::set<std::pair<std::string_view, std::string_view>> sets;  // generation and count
  for (const std::string& key : keys) {
    if (const auto shard = format::parse_shard_name(key); shard && shard->stem() == stem_key)
      sets.emplace(shard->generation, shard->count);
  }
  std::vector<std::string> left;
  for (const std::string& name : listed) {
    const std::string key = os::name_key(name);
    const auto shard = format::parse_shard_name(key);
    if (shard && shard->stem() == stem_key && !keys.contains(key) && !sets.contains({shard->generation, shard->count}))
      left.push_back(name);
  }
  return left;
}

std::vector<std::string> without_open_files(const std::string& folder, std::vector<std::string> names) {
  const Result<std::vector<std::string>> paths = os::paths_of_open_files();
  if (!paths) return {};
  const auto place_of = [](const std::string& path) -> std::optional<std::pair<std::uint64_t, std::uint64_t>> {
    os::FileStatus file;
    if (os::status_of_path(path.c_str(), os::Symlinks::follow, file) != 0) return std::nullopt;
    return std::pair(file.identity.device, file.identity.inode);
  };
  std::set<std::pair<std::uint64_t, std::uint64_t>> open;  // device and inode
  for (const std::string& path : *paths) {
    if (const auto place = place_of(path)) open.insert(*place);
  }
  std::erase_if(names, [&](const std::string& name) {
    const auto place = place_of(os::join_path(folder, name));
    return place && open.contains(*place);
  });
  return names;
}

}  // namespace safetensors::write
