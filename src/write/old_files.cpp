// Finds the files of an older model by their names, and compares them with the input by device and inode. So a symlink
// or another spelling of a path does not hide that the input lies in the folder. Files that a killed writer left are
// not a model.
#include "write/old_files.h"

#include <safetensors/dtype.h>
#include <safetensors/file.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "format/checkpoint/model_names.h"
#include "os/directory.h"
#include "os/file_status.h"
#include "write/leftovers.h"

namespace safetensors::write {
namespace {

constexpr std::size_t kMaxNamedFiles = 3;  // files in an error

using FileId = std::pair<std::uint64_t, std::uint64_t>;  // device and inode

std::optional<FileId> identity_of_path(const std::string& path) {
  os::FileStatus status;
  if (os::status_of_path(path.c_str(), os::Symlinks::follow, status) != 0) return std::nullopt;
  return FileId(status.identity.device, status.identity.inode);
}

// The input: its files, and whether each of its tensors is a tensor of the input.
struct InputModel {
  std::map<FileId, bool> whole;
  bool in_folder = false;  // a file lies in the folder
};

InputModel input_model(const Checkpoint& input, const std::string& folder) {
  InputModel found;
  std::map<const Header*, std::size_t> visible;
  for (const Tensor& tensor : input.tensors()) {
    const File file = tensor.file();
    ++visible[&file.header()];
  }
  const std::optional<FileId> there = identity_of_path(folder);
  for (const File& file : input.files()) {
    const std::string& path = file.path();
    if (const auto identity = identity_of_path(path))
      found.whole[*identity] = visible[&file.header()] == file.header().size();
    const std::size_t name = path.rfind('/') + 1;
    found.in_folder = found.in_folder || (there && there == identity_of_path(name == 0 ? "." : path.substr(0, name)));
  }
  return found;
}

// The names of the tensors of the input and of the new model: a run that was killed left files with either of them.
using KnownNames = std::set<std::string, std::less<>>;

KnownNames known_names(const Checkpoint& input, const CheckpointLayout& layout) {
  KnownNames names;
  for (const Tensor& tensor : input.tensors()) names.emplace(tensor.name());
  for (const CheckpointFile& file : layout.files()) {
    for (const TensorInfo& tensor : file.header.tensors()) names.emplace(tensor.name);
  }
  return names;
}

bool holds_only(const std::string& path, const KnownNames& names) {
  const Result<File> file = File::open(path);
  return file && std::ranges::all_of(file->header().tensors(),
                                     [&](const TensorInfo& info) { return names.contains(info.name); });
}

// The dtypes and shapes of tensors. The names of dtypes: GCC does not hide templates of the standard library over
// enumerations of ours.
using Kinds = std::multiset<std::pair<std::string_view, std::vector<std::uint64_t>>>;

void add_kind(const TensorInfo& info, Kinds& kinds) {
  kinds.emplace(to_string(info.dtype), std::vector<std::uint64_t>(info.shape.begin(), info.shape.end()));
}

// Returns whether each tensor of the files has the dtype and shape of another tensor of the input: rename keeps these.
// A writer that was killed may have removed some of the files.
bool are_renamed(const std::string& folder, const std::vector<std::string>& names, const Checkpoint& input) {
  Kinds found, wanted;
  for (const std::string& name : names) {
    const Result<File> file = File::open(os::join_path(folder, name));
    if (!file) return false;
    for (const TensorInfo& info : file->header().tensors()) add_kind(info, found);
  }
  for (const Tensor& tensor : input.tensors()) add_kind(tensor.info(), wanted);
  return std::ranges::includes(wanted, found);
}

// The files of the stem that hold no model, or only one that a killed writer has replaced or did not finish.
class DeadFiles {
 public:
  DeadFiles(const std::string& folder, const std::vector<std::string>& listed, const NamedFiles& named,
            const CheckpointLayout& layout, const Checkpoint& input)
      : folder_(folder), names_(known_names(input, layout)) {
    std::size_t generation = 0;  // of the index
    for (const std::string& name : named.of_model) generation = std::max(generation, format::generation_of(name));
    std::vector<std::string> group;
    for (std::string& name : find_leftovers(named, listed, layout.stem())) {
      if (generation > 1 || format::generation_of(name) > 1)
        dead_.push_back(std::move(name));
      else
        group.push_back(std::move(name));
    }
    add_doubtful(group, input);
    const std::string whole = std::string(layout.stem()) + ".safetensors";
    if (!named.certain || !named.has_index || named.contains(whole) || std::ranges::find(listed, whole) == listed.end())
      return;
    // The input is one of the two models.
    add_doubtful({whole}, input);
    add_doubtful({named.of_model.begin(), named.of_model.end()}, input);
  }

  // Another program may have left a file, too. So the tensors decide, except for shards of a generation, and for shards
  // in whose place a writer of ours has put a generation.
  bool contains(const std::string& name) const {
    return std::ranges::find(dead_, name) != dead_.end() ||
           (std::ranges::find(doubtful_, name) != doubtful_.end() && holds_only(os::join_path(folder_, name), names_));
  }

 private:
  void add_doubtful(const std::vector<std::string>& model, const Checkpoint& input) {
    std::vector<std::string>& list = are_renamed(folder_, model, input) ? dead_ : doubtful_;
    list.insert(list.end(), model.begin(), model.end());
  }

  const std::string& folder_;
  const KnownNames names_;
  std::vector<std::string> dead_;
  std::vector<std::string> doubtful_;
};

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
  InputModel files = input_model(input, folder);
  const NamedFiles named = read_named_files(folder, *names, index_of_stem(*names, layout.stem(), layout.index_name()));
  const DeadFiles dead(folder, *names, named, layout, input);
  std::vector<std::string> lost;
  for (const std::string& name : *names) {
    const std::optional<FileId> identity = identity_of_path(os::join_path(folder, name));
    const auto read = identity ? files.whole.find(*identity) : files.whole.end();
    files.in_folder = files.in_folder || read != files.whole.end();
    // A symlink to nothing holds no tensor.
    if (!identity || (read != files.whole.end() && read->second)) continue;
    if (named.is_old(name, layout.stem()) && !dead.contains(name)) lost.push_back(name);
  }
  return files.in_folder && !lost.empty() ? Status(lost_files(lost, folder)) : Status();
}

}  // namespace safetensors::write
