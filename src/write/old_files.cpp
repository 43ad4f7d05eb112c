// Finds the files of an older model by their names, and compares them with the input by device and inode. So a symlink
// or another spelling of a path does not hide that the input lies in the folder. Files that a killed writer left are
// not a model.
#include "write/old_files.h"

#include <safetensors/dtype.h>
#include <safetensors/file.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/printable.h"
#include "file/file.h"
#include "format/checkpoint/model_names.h"
#include "os/directory.h"
#include "write/leftovers.h"

namespace safetensors::write {
namespace {

constexpr std::size_t kMaxNamedFiles = 3;  // files in an error

// The input: its files, and whether the input has a tensor of each name in the file, in this file or in another.
struct InputModel {
  std::map<FileId, bool> whole;
  bool in_folder = false;  // a file lies in the folder, or a link to it

  // Returns nullopt for a file that is not of the input.
  [[nodiscard]] std::optional<bool> is_whole(const std::string& path) const {
    const std::optional<FileId> identity = identity_of_path(path);
    const auto found = identity ? whole.find(*identity) : whole.end();
    return found == whole.end() ? std::nullopt : std::optional(found->second);
  }
};

InputModel input_model(const Checkpoint& input, const std::string& folder, const std::vector<std::string>& listed) {
  InputModel found;
  const std::optional<FileId> there = identity_of_path(folder);
  for (const File& file : input.files()) {
    const std::string& path = file.path();
    if (const auto identity = identity_of_path(path))
      found.whole[*identity] = std::ranges::all_of(
          file.header().tensors(), [&](const TensorInfo& tensor) { return input.contains(tensor.name); });
    const std::size_t name = path.rfind('/') + 1;
    found.in_folder = found.in_folder || (there && there == identity_of_path(name == 0 ? "." : path.substr(0, name)));
  }
  for (const std::string& name : listed)
    found.in_folder = found.in_folder || found.is_whole(os::join_path(folder, name));
  return found;
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

// The files of the model that hold no model, or only one that a killed writer has replaced or did not finish: shards of
// a generation, shards in whose place a writer of ours has put a generation, and copies of the input. Another program
// may have left any other file.
std::vector<std::string> dead_files(const std::string& folder, const std::vector<std::string>& listed,
                                    const NamedFiles& named, const Checkpoint& input, const InputModel& read) {
  std::size_t generation = 0;  // of the index
  for (const std::string& name : named.of_model) generation = std::max(generation, format::generation_of(name));
  std::vector<std::string> dead;
  const auto add_copies = [&](std::vector<std::string> names) {
    std::erase_if(names, [&](const std::string& name) { return read.is_whole(os::join_path(folder, name)) == true; });
    if (!names.empty() && are_copies(folder, names, input)) dead.insert(dead.end(), names.begin(), names.end());
  };
  std::vector<std::string> doubtful;
  for (std::string& name : find_leftovers(named, listed))
    (generation > 1 || format::generation_of(name) > 1 ? dead : doubtful).push_back(std::move(name));
  add_copies(doubtful);
  if (named.certain && named.has_index && !named.contains(named.whole) &&
      std::ranges::find(listed, named.whole) != listed.end()) {
    // The input is one of the two models.
    add_copies({named.whole});
    add_copies({named.of_model.begin(), named.of_model.end()});
  }
  return dead;
}

Error lost_files(const std::vector<std::string>& lost, const std::string& folder) {
  std::string names;
  for (std::size_t i = 0; i < std::min(lost.size(), kMaxNamedFiles); ++i)
    names += (i == 0 ? "`" : ", `") + printable(lost[i]) + "`";
  if (lost.size() > kMaxNamedFiles) names += " and " + std::to_string(lost.size() - kMaxNamedFiles) + " more";
  return base::make_error(Errc::invalid_argument,
                          "the new model would remove or replace " + names +
                              ", whose tensors are not all in the input: give the whole model as the input, write into "
                              "another folder, or move these files away",
                          folder);
}

}  // namespace

Status check_old_files(const std::string& folder, const CheckpointLayout& layout, const Checkpoint& input) {
  if (os::kind_of(folder) != os::PathKind::directory) return {};
  const Result<std::vector<std::string>> names = os::list_directory(folder);
  if (!names) return names.error();
  const InputModel read = input_model(input, folder, *names);
  if (!read.in_folder) return {};
  const NamedFiles named = read_named_files(folder, *names, index_of(*names, layout), layout);
  const std::vector<std::string> dead = dead_files(folder, *names, named, input, read);
  std::vector<std::string> lost;
  for (const std::string& name : *names) {
    const std::string path = os::join_path(folder, name);
    // A symlink to nothing holds no tensor.
    if (!identity_of_path(path) || read.is_whole(path) == true || !named.is_old(name)) continue;
    if (std::ranges::find(dead, name) == dead.end()) lost.push_back(name);
  }
  return lost.empty() ? Status() : Status(lost_files(lost, folder));
}

}  // namespace safetensors::write
