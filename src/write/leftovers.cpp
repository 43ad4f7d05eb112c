// Tells the shards of the model in a folder from those of killed writers. The index decides: a writer gives its shards
// their names, renames its index, and then removes the older shards. So shards that no index names belong to a writer
// that holds the lock of the folder, or to one that was killed.
#include "write/leftovers.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/cancellation.h"
#include "file/checkpoint_paths.h"
#include "format/checkpoint/model_names.h"
#include "os/directory.h"
#include "os/file_status.h"
#include "os/path.h"

namespace safetensors::write {

std::optional<FileId> identity_of_path(const std::string& path) {
  os::FileStatus status;
  if (os::status_of_path(path.c_str(), os::Symlinks::follow, status) != 0) return std::nullopt;
  return FileId(status.identity.device, status.identity.inode);
}

std::string index_of(const std::vector<std::string>& listed, const CheckpointLayout& layout) {
  if (std::ranges::find(listed, layout.index_name()) != listed.end()) return layout.index_name();
  const auto found = std::ranges::find_if(listed, [&](const std::string& name) {
    const auto parts = format::parse_index_name(name);
    return parts && parts->stem() == layout.stem();
  });
  return found == listed.end() ? layout.index_name() : *found;
}

bool NamedFiles::is_alike(std::string_view name) const {
  const std::string key = os::name_key(name);
  const auto shard = format::parse_shard_name(key);
  return shard ? stems.contains(shard->stem()) : key == os::name_key(whole);
}

NamedFiles read_named_files(const std::string& folder, const std::vector<std::string>& listed,
                            std::string_view model_index, const CheckpointLayout& layout) {
  NamedFiles found;
  found.whole = std::string(layout.stem()) + ".safetensors";
  found.stems.insert(os::name_key(layout.stem()));
  const auto add_stem = [&](std::string_view name) {
    const std::string key = os::name_key(name);
    if (const auto shard = format::parse_shard_name(key)) found.stems.insert(shard->stem());
  };
  for (const CheckpointFile& file : layout.files()) add_stem(file.name);
  base::Cancellation cancellation;
  for (const std::string& name : listed) {
    if (!format::is_index_name(name)) continue;
    const auto index = file::read_index(os::join_path(folder, name), cancellation);
    found.certain = found.certain && index;
    const bool own = name == model_index;
    found.has_index = found.has_index || own;
    found.unreadable = found.unreadable || (own && !index && index.error().code != Errc::invalid_index);
    for (std::uint32_t i = 0; index && i < (*index)->shard_count(); ++i) {
      (own ? found.of_model : found.of_others).emplace((*index)->shard(i));
      if (own) add_stem((*index)->shard(i));
    }
  }
  return found;
}

std::vector<std::string> find_leftovers(const NamedFiles& named, const std::vector<std::string>& listed) {
  if (!named.certain || (!named.has_index && std::ranges::find(listed, named.whole) == listed.end())) return {};
  const auto set_of = [](std::string_view key) {
    const auto shard = format::parse_shard_name(key);
    return shard ? shard->stem().append("/").append(shard->generation).append("/").append(shard->count) : std::string();
  };
  NamedFiles::Names sets;  // of the named files
  for (const auto* names : {&named.of_model, &named.of_others}) {
    for (const std::string& name : *names) sets.insert(set_of(os::name_key(name)));
  }
  std::vector<std::string> left;
  for (const std::string& name : listed) {
    const std::string set = set_of(os::name_key(name));
    if (!set.empty() && named.is_alike(name) && !sets.contains(set)) left.push_back(name);
  }
  return left;
}

std::vector<std::string> without_open_files(const std::string& folder, std::vector<std::string> names) {
  const Result<std::vector<std::string>> paths = os::paths_of_open_files();
  if (!paths) return {};
  std::set<FileId> open;
  for (const std::string& path : *paths) {
    if (const auto identity = identity_of_path(path)) open.insert(*identity);
  }
  std::erase_if(names, [&](const std::string& name) {
    const auto identity = identity_of_path(os::join_path(folder, name));
    return identity && open.contains(*identity);
  });
  return names;
}

}  // namespace safetensors::write
