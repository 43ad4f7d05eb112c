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

// Returns whether each tensor of a file has the name of a tensor of the input, or its dtype and shape: rename keeps
// these.
bool holds_known_tensors(const std::string& path, const Checkpoint& input) {
  const Result<File> file = File::open(path);
  if (!file) return false;
  // The names of dtypes: GCC does not hide templates of the standard library over enumerations of ours.
  std::set<std::pair<std::string_view, std::vector<std::uint64_t>>> kinds;
  for (const Tensor& tensor : input.tensors())
    kinds.emplace(to_string(tensor.dtype()), std::vector<std::uint64_t>(tensor.shape().begin(), tensor.shape().end()));
  return std::ranges::all_of(file->header().tensors(), [&](const TensorInfo& info) {
    return input.contains(info.name) || kinds.contains({to_string(info.dtype), {info.shape.begin(), info.shape.end()}});
  });
}

// The files of the stem that hold no model, or only one that a killed writer has replaced or did not finish.
class DeadFiles {
 public:
  DeadFiles(const std::string& folder, const std::vector<std::string>& listed, const NamedFiles& named,
            std::string_view stem)
      : folder_(folder), leftovers_(find_leftovers(named, listed, stem)) {
    const std::string whole = std::string(stem) + ".safetensors";
    two_models_ =
        named.certain && named.has_index && !named.contains(whole) && std::ranges::find(listed, whole) != listed.end();
  }

  // Of an index and a whole file that it does not name, a killed writer has left one. But the whole file can also be of
  // another program. So the tensors decide.
  bool contains(const std::string& name, const Checkpoint& input) const {
    return std::ranges::binary_search(leftovers_, name) ||
           (two_models_ && holds_known_tensors(os::join_path(folder_, name), input));
  }

 private:
  const std::string& folder_;
  const std::vector<std::string> leftovers_;
  bool two_models_ = false;
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
  const DeadFiles dead(folder, *names, named, layout.stem());
  std::vector<std::string> lost;
  for (const std::string& name : *names) {
    const std::optional<FileId> identity = identity_of_path(os::join_path(folder, name));
    const auto read = identity ? files.whole.find(*identity) : files.whole.end();
    files.in_folder = files.in_folder || read != files.whole.end();
    // A symlink to nothing holds no tensor.
    if (!identity || (read != files.whole.end() && read->second)) continue;
    if (named.is_old(name, layout.stem()) && !dead.contains(name, input)) lost.push_back(name);
  }
  return files.in_folder && !lost.empty() ? Status(lost_files(lost, folder)) : Status();
}

}  // namespace safetensors::write
