// Tells the shards of the model in a folder from those of killed writers. The index decides: a writer gives its shards
// their names, renames its index, and then removes the older shards. So shards that no index names belong to a writer
// that holds the lock of the folder, or to one that was killed.
#include "write/leftovers.h"

#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "base/cancellation.h"
#include "file/checkpoint_paths.h"
#include "os/directory.h"

namespace safetensors::write {
namespace {

// `model.safetensors.index.json`, and with a variant `model.safetensors.index.fp16.json`.
bool is_index_name(std::string_view name) noexcept {
  return name.ends_with(".json") && name.find(".safetensors.index.") != name.npos;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

NamedFiles read_named_files(const std::string& folder, const std::vector<std::string>& listed, std::string_view stem) {
  NamedFiles found;
  found.has_index = contains(listed, std::string(stem) + ".safetensors.index.json");
  const std::function<bool()> never;
  base::Cancellation cancellation(never);
  for (const std::string& name : listed) {
    if (!is_index_name(name)) continue;
    const auto index = file::read_index(os::join_path(folder, name), cancellation);
    found.certain = found.certain && index;
    for (std::uint32_t i = 0; index && i < (*index)->shard_count(); ++i) found.names.emplace((*index)->shard(i));
  }
  return found;
}

std::vector<std::string> find_leftovers(const NamedFiles& named, const std::vector<std::string>& listed,
                                        std::string_view stem) {
  if (!named.certain) return {};
  if (!named.has_index && !contains(listed, std::string(stem) + ".safetensors")) return {};
  std::set<std::pair<std::string_view, std::string_view>> sets;  // generation and count
  for (const std::string& name : named.names) {
    if (const auto shard = format::parse_numbered_shard(name); shard && shard->stem == stem)
      sets.emplace(shard->generation, shard->count);
  }
  std::vector<std::string> left;
  for (const std::string& name : listed) {
    const auto shard = format::parse_numbered_shard(name);
    if (shard && shard->stem == stem && !named.names.contains(name) &&
        !sets.contains({shard->generation, shard->count}))
      left.push_back(name);
  }
  return left;
}

std::vector<std::string> without_open_files(const std::string& folder, std::vector<std::string> names) {
  constexpr const char* kOpenFiles = "/proc/self/fd";
  const Result<std::vector<std::string>> descriptors = os::list_directory(kOpenFiles);
  if (!descriptors) return {};
  std::set<std::pair<dev_t, ino_t>> open;
  struct stat file = {};
  for (const std::string& descriptor : *descriptors) {
    if (::stat(os::join_path(kOpenFiles, descriptor).c_str(), &file) == 0) open.emplace(file.st_dev, file.st_ino);
  }
  std::erase_if(names, [&](const std::string& name) {
    return ::stat(os::join_path(folder, name).c_str(), &file) == 0 && open.contains({file.st_dev, file.st_ino});
  });
  return names;
}

}  // namespace safetensors::write
