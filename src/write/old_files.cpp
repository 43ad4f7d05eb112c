// Finds the files of an older model by their names, and compares them with the input by device and inode. So a symlink
// or another spelling of a path does not hide that the input lies in the folder.
#include "write/old_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "format/printable.h"
#include "format/shard_index.h"
#include "os/directory.h"

namespace safetensors::write {
namespace {

constexpr std::size_t kMaxNamedFiles = 3;  // files in an error

using FileId = std::pair<dev_t, ino_t>;

std::optional<FileId> identity_of_path(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileId(status.st_dev, status.st_ino);
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
  std::vector<std::string> lost;
  for (const std::string& name : *names) {
    const std::optional<FileId> identity = identity_of_path(os::join_path(folder, name));
    const auto read = identity ? files.whole.find(*identity) : files.whole.end();
    files.in_folder = files.in_folder || read != files.whole.end();
    // A symlink to nothing holds no tensor.
    if (!identity || (read != files.whole.end() && read->second)) continue;
    if (format::stem_of(name) == layout.stem()) lost.push_back(name);
  }
  return files.in_folder && !lost.empty() ? Status(lost_files(lost, folder)) : Status();
}

}  // namespace safetensors::write
