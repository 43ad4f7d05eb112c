// Tells the files of the model in a folder from those of killed writers. The index decides: a writer gives its shards
// their names, renames its index, and then removes the older shards. So shards that no index names belong to a writer
// that holds the lock of the folder, or to one that was killed.
//
// check_old_files() compares files with the input by device and inode. So a symlink or another spelling of a path does
// not hide that the input lies in the folder. Files that a killed writer left are not a model.
#include "write/old_files.h"

#include <safetensors/dtype.h>
#include <safetensors/file.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "base/cancellation.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/printable.h"
#include "file/checkpoint_paths.h"
#include "file/file.h"
#include "format/checkpoint/checkpoint_layout.h"
#include "format/checkpoint/model_names.h"
#include "os/directory.h"
#include "os/file_status.h"
#include "os/path.h"

namespace safetensors::write {
namespace {

constexpr std::size_t kMaxNamedFiles = 3;  // in an error

using FileId = std::pair<std::uint64_t, std::uint64_t>;  // device and inode

// Returns the identity of the file that a path leads to, also through symlinks, or nullopt if stat fails.
std::optional<FileId> identity_of_path(const std::string& path) {
  os::FileStatus status;
  if (os::status_of_path(path.c_str(), os::Symlinks::follow, status) != 0) return std::nullopt;
  return FileId(status.identity.device, status.identity.inode);
}

// The files of the input. Values: whether the input has a tensor of each name in the file, in this file or in another.
using InputFiles = std::map<FileId, bool>;

// Returns nullopt for a file that is not of the input.
std::optional<bool> is_whole(const InputFiles& input, const std::string& path) {
  const std::optional<FileId> identity = identity_of_path(path);
  const auto found = identity ? input.find(*identity) : input.end();
  return found == input.end() ? std::nullopt : std::optional(found->second);
}

// Tensors by their dtypes, shapes, and bytes. The names of dtypes: GCC does not hide templates of the standard library
// over enumerations of ours.
using Values = std::set<std::tuple<std::string_view, std::vector<std::uint64_t>, std::uint64_t>>;

// Adds a tensor. key: for a hash of the bytes, which then needs to read them; null: without the bytes. Returns false if
// they cannot be read.
bool add_value(const File& file, const TensorInfo& info, const base::HashKey* key, Values& values) {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
  std::vector<std::byte> piece(static_cast<std::size_t>(key == nullptr ? 0 : std::min(kPiece, info.nbytes())));
  std::uint64_t hash = 0;
  for (std::uint64_t begin = 0; !piece.empty() && begin < info.nbytes(); begin += kPiece) {
    const auto bytes = std::span(piece).first(static_cast<std::size_t>(std::min(kPiece, info.nbytes() - begin)));
    if (!detail::Access<File>::state(file)->read(info, info.file_offset + begin, bytes)) return false;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    hash = base::SipHash<1, 3>::of(text, {key->k0 ^ hash, key->k1});
  }
  values.emplace(to_string(info.dtype), std::vector<std::uint64_t>(info.shape.begin(), info.shape.end()), hash);
  return true;
}

// Returns whether the input has each tensor of the files, under any name. Nothing else proves that a file of another
// program is not lost with them: a model has many versions with equal names, dtypes and shapes.
bool are_copies(const std::string& folder, const std::vector<std::string>& names, const Checkpoint& input) {
  const base::HashKey random = base::HashKey::random();
  for (const base::HashKey* const key : {static_cast<const base::HashKey*>(nullptr), &random}) {
    Values found, wanted;
    for (const std::string& name : names) {
      const Result<File> file = File::open(os::join_path(folder, name), {.access = Access::read});
      if (!file) return false;
      for (const TensorInfo& info : file->header().tensors())
        if (!add_value(*file, info, key, found)) return false;
    }
    for (const Tensor& tensor : input.tensors())  // unlike its files, which may have tensors that the index lacks
      if (!add_value(tensor.file(), tensor.info(), key, wanted)) return false;
    if (!std::ranges::includes(wanted, found)) return false;
  }
  return true;
}

// The files with names of the model that a writer of ours has replaced or did not finish, because it was killed: shards
// of a generation, shards in whose place a generation was put, and copies of the input. Any other file may come from
// another program.
std::vector<std::string> dead_files(const std::string& folder, const std::vector<std::string>& listed,
                                    const NamedFiles& named, const Checkpoint& input, const InputFiles& read) {
  std::size_t generation = 0;  // of the index
  for (const std::string& name : named.of_model) generation = std::max(generation, format::generation_of(name));
  std::vector<std::string> dead;
  const auto add_copies = [&](std::vector<std::string> names) {
    std::erase_if(names, [&](const std::string& name) { return is_whole(read, os::join_path(folder, name)) == true; });
    if (!names.empty() && are_copies(folder, names, input)) dead.insert(dead.end(), names.begin(), names.end());
  };
  std::vector<std::string> doubtful;
  for (std::string& name : find_leftovers(named, listed))
    (generation > 1 || format::generation_of(name) > 1 ? dead : doubtful).push_back(std::move(name));
  add_copies(doubtful);
  if (named.certain && named.has_index && !named.of_model.contains(named.whole) &&
      !named.of_others.contains(named.whole) && std::ranges::find(listed, named.whole) != listed.end()) {
    // The input is one of the two models.
    add_copies({named.whole});
    add_copies({named.of_model.begin(), named.of_model.end()});
  }
  return dead;
}

// Names files by the pattern of their set if there are many.
Error lost_files(const std::vector<std::string>& lost, const std::string& folder) {
  std::vector<std::pair<std::string, std::size_t>> shown;  // with the number of files
  std::set<std::string> in_sets;
  for (const format::ShardSet& set :
       lost.size() > kMaxNamedFiles ? format::shard_sets(lost) : std::vector<format::ShardSet>()) {
    if (set.names.size() == 1) continue;
    shown.emplace_back("`" + printable(set.pattern()) + "` (" + std::to_string(set.names.size()) + " files)",
                       set.names.size());
    in_sets.insert(set.names.begin(), set.names.end());
  }
  for (const std::string& name : lost) {
    if (!in_sets.contains(name)) shown.emplace_back("`" + printable(name) + "`", 1);
  }
  std::string names;
  std::size_t more = lost.size();
  for (std::size_t i = 0; i < std::min(shown.size(), kMaxNamedFiles); ++i) {
    names += (i == 0 ? "" : ", ") + shown[i].first;
    more -= shown[i].second;
  }
  if (more != 0) names += " and " + std::to_string(more) + " more";
  return base::make_error(Errc::invalid_argument,
                          "the new model would remove or replace " + names +
                              ", whose tensors are not all in the input: give the whole model as the input, write into "
                              "another folder, or move these files away",
                          folder);
}

}  // namespace

std::string index_of(const std::vector<std::string>& listed, const CheckpointLayout& layout) {
  if (std::ranges::find(listed, layout.index_name()) != listed.end()) return layout.index_name();
  const auto found = std::ranges::find_if(listed, [&](const std::string& name) {
    const auto parts = format::parse_index_name(name);
    return parts && parts->stem() == format::stem_of(layout);
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
  found.whole = format::stem_of(layout) + ".safetensors";
  found.stems.insert(os::name_key(format::stem_of(layout)));
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
  std::set<std::string> sets;  // of the named files
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

Status check_old_files(const std::string& folder, const CheckpointLayout& layout, const Checkpoint& input) {
  if (os::kind_of(folder) != os::PathKind::directory) return {};
  const Result<std::vector<std::string>> names = os::list_directory(folder);
  if (!names) return names.error();
  InputFiles read;
  for (const File& file : input.files()) {
    if (const auto identity = identity_of_path(file.path()))
      read[*identity] = std::ranges::all_of(file.header().tensors(),
                                            [&](const TensorInfo& tensor) { return input.contains(tensor.name); });
  }
  const auto is_input = [&](const std::string& name) {
    return is_whole(read, os::join_path(folder, name)).has_value();
  };
  if (std::ranges::none_of(*names, is_input)) return {};
  const NamedFiles named = read_named_files(folder, *names, index_of(*names, layout), layout);
  const std::vector<std::string> dead = dead_files(folder, *names, named, input, read);
  std::vector<std::string> lost;
  for (const std::string& name : *names) {
    const std::string path = os::join_path(folder, name);
    // A symlink to nothing holds no tensor.
    if (!identity_of_path(path) || is_whole(read, path) == true || !named.is_old(name)) continue;
    if (std::ranges::find(dead, name) == dead.end()) lost.push_back(name);
  }
  return lost.empty() ? Status() : Status(lost_files(lost, folder));
}

}  // namespace safetensors::write
