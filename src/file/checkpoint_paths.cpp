// Turns paths into the list of files of a checkpoint. A path may name a file, an index (which stands for its shards), a
// folder (which stands for its one index or file), or it may be a pattern (which stands for all files that match).
//
// The cache of huggingface_hub has folders `models--ORG--NAME` with `refs/main`, which contains a REVISION, and
// `snapshots/REVISION`, which is a folder with a model. refs/main comes from strangers: its text is used only if it is
// the name of a folder in `snapshots`.
#include "file/checkpoint_paths.h"

#include <safetensors/file.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/glob.h"
#include "json/reader.h"
#include "os/directory.h"
#include "os/parallel.h"
#include "os/path.h"
#include "os/regular_file.h"

namespace safetensors::file {
namespace {

// Names a file of another format in a folder: " (`model.gguf` has another format)".
std::string other_format(const std::vector<std::string>& names) {
  static constexpr std::string_view kOthers[] = {".bin",  ".pt",  ".pth", ".ckpt",    ".pkl", ".gguf",   ".h5",
                                                 ".onnx", ".npz", ".npy", ".msgpack", ".pb",  ".tflite", ".pdparams"};
  for (const std::string& name : names) {
    if (!std::ranges::any_of(kOthers, [&](std::string_view end) { return name.ends_with(end); })) continue;
    return base::concat({" (`", printable(name), "` has another format: convert it first)"});
  }
  return "";
}

Error ambiguous(const std::string& folder, const std::string& what, const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 8;
  std::string message = base::concat({"a folder of ", names.size(), what, ", name one of them: "});
  for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i)
    message += (i == 0 ? "`" : ", `") + printable(names[i]) + "`";
  if (names.size() > kNamed) message += " and " + std::to_string(names.size() - kNamed) + " more";
  return base::make_error(Errc::ambiguous_checkpoint, std::move(message), folder);
}

Error ambiguous(const std::string& folder, const std::vector<format::ModelFiles>& models) {
  const bool indexes = std::ranges::any_of(models, [](const auto& model) { return !model.index.empty(); });
  std::vector<std::string> names;
  for (const format::ModelFiles& model : models) {
    for (const std::string& name : model.shards.names) names.push_back(name);
    if (model.shards.names.empty()) names.push_back(model.whole.empty() ? model.index : model.whole);
  }
  std::sort(names.begin(), names.end());
  return ambiguous(folder, indexes ? " indexes" : " safetensors files without an index", names);
}

// Returns the text of a short file without white space at its end, or an empty text.
std::string short_text(const std::string& path) {
  constexpr std::uint64_t kMaxBytes = 256;
  const auto file = os::RegularFile::open(path);
  if (!file || (*file)->identity().size > kMaxBytes) return {};
  std::string text(static_cast<std::size_t>((*file)->identity().size), '\0');
  if (!os::read_exactly(**file, 0, std::as_writable_bytes(std::span(text)))) return {};
  return text.erase(text.find_last_not_of(" \r\n") + 1);
}

bool is_folder(const std::string& path) {
  return os::kind_of(path) == os::PathKind::directory;
}

}  // namespace

Result<std::string> snapshot_of(const std::string& folder) {
  const std::string snapshots = os::join_path(folder, "snapshots");
  if (!is_folder(snapshots) || !is_folder(os::join_path(folder, "refs"))) return folder;
  const Result<std::vector<std::string>> names = os::list_directory(folder);
  if (!names || !format::models_of(*names).empty()) return folder;
  const Result<std::vector<std::string>> listed = os::list_directory(snapshots);
  if (!listed) return listed.error();
  const std::string main = short_text(os::join_path(folder, "refs/main"));
  std::vector<std::string> found;
  for (const std::string& name : *listed) {
    std::string path = os::join_path(snapshots, name);
    if (!is_folder(path)) continue;
    if (name == main) return path;
    found.push_back(std::move(path));
  }
  if (found.size() > 1) return ambiguous(folder, " snapshots without refs/main", found);
  return found.empty() ? folder : found[0];
}

Result<std::unique_ptr<const format::ShardIndex>> read_index(const std::string& path,
                                                             base::Cancellation& cancellation) {
  const auto file = os::RegularFile::open(path);
  if (!file) return file.error();
  const std::uint64_t size = (*file)->identity().size;
  if (size > format::kMaxIndexBytes)
    return base::make_error(Errc::invalid_index,
                            {"index too large: ", size, " bytes, at most ", format::kMaxIndexBytes, " are read"});
  const auto length = static_cast<std::size_t>(size);
  auto text = std::make_unique_for_overwrite<char[]>(length + json::Reader::kPadding);
  std::fill_n(text.get() + length, json::Reader::kPadding, '\0');
  const auto bytes = std::as_writable_bytes(std::span(text.get(), length));
  if (Status status = os::read_parallel(**file, 0, bytes, 0, &cancellation); !status) return std::move(status).error();
  return format::ShardIndex::parse(std::move(text), length, &cancellation);
}

Status CheckpointPaths::add(const std::string& given) {
  const std::string path = os::generic_path(given);
  if (path.find('\0') != std::string::npos)
    return base::make_error(Errc::invalid_argument, "path contains a zero byte", path);
  // If nothing is at a path without a pattern, the error comes when the file is opened.
  if (!base::is_glob(path) || os::kind_of(path) != os::PathKind::nothing) return add_one(path);
  const Result<std::vector<std::string>> matches = os::expand_pattern(path);
  if (!matches) return matches.error();
  if (matches->empty()) return base::make_error(Errc::not_found, "no file matches this pattern", path);
  for (const std::string& match : *matches) {
    if (Status status = add_one(match); !status) return status;
  }
  return {};
}

Status CheckpointPaths::add_one(const std::string& path) {
  const os::PathKind kind = os::kind_of(path);
  if (kind == os::PathKind::directory) return add_folder(path);
  if (kind != os::PathKind::nothing && path.ends_with(".json")) return add_index(path);
  return add_file(path), Status();
}

Status CheckpointPaths::add_folder(const std::string& given) {
  const Result<std::string> snapshot = snapshot_of(given);
  if (!snapshot) return snapshot.error();
  const std::string& path = *snapshot;
  const Result<std::vector<std::string>> names = os::list_directory(path);
  if (!names) return names.error();
  const std::vector<format::ModelFiles> models = format::models_of(*names);
  if (models.size() > 1) return ambiguous(path, models);
  if (models.empty())
    return base::make_error(Errc::not_found,
                            {"a folder without a safetensors file or an index of them", other_format(*names)}, path);
  const format::ModelFiles& model = models[0];
  if (!model.index.empty() && (model.whole.empty() || index_counts(path, model)))
    return add_index(os::join_path(path, model.index));
  if (model.shards.names.empty()) return add_file(os::join_path(path, model.whole)), Status();
  if (!model.shards.complete())
    return base::make_error(
        Errc::not_found, {"a folder with ", model.shards.missing_text(), " (the pattern opens those that are there)"},
        path);
  for (const std::string& name : model.shards.names) add_file(os::join_path(path, name));
  return {};
}

// Returns whether an index counts beside the whole file of its model: it names this file, or this file has only a part
// of its tensors. Such a part is left if a writer is killed whose old index named the file.
bool CheckpointPaths::index_counts(const std::string& folder, const format::ModelFiles& model) const {
  const auto index = read_index(os::join_path(folder, model.index), cancellation_);
  if (!index) return false;
  const format::ShardIndex& shards = **index;
  for (std::uint32_t i = 0; i < shards.shard_count(); ++i) {
    if (shards.shard(i) == model.whole) return true;
  }
  const Result<File> file = File::open(os::join_path(folder, model.whole), {.access = Access::read});
  return file && file->header().size() < shards.size() &&
         std::ranges::all_of(file->header().tensors(), [&](const TensorInfo& tensor) {
           return shards.find(tensor.name) != format::ShardIndex::kNone;
         });
}

Status CheckpointPaths::add_index(const std::string& path) {
  Result<std::unique_ptr<const format::ShardIndex>> shards = read_index(path, cancellation_);
  if (!shards) return base::with_path(std::move(shards).error(), path);
  const std::size_t count = (*shards)->shard_count();
  indexes_.push_back(
      std::make_unique<const IndexFile>(IndexFile{path, path.substr(0, path.rfind('/') + 1), *std::move(shards)}));
  parts_.reserve(parts_.size() + count);
  for (std::size_t i = 0; i < count; ++i) parts_.push_back({indexes_.back().get(), static_cast<std::uint32_t>(i)});
  return {};
}

void CheckpointPaths::add_file(const std::string& path) {
  plain_.push_back(path);
  parts_.push_back({nullptr, static_cast<std::uint32_t>(plain_.size() - 1)});
}

std::string CheckpointPaths::path(const Part& part) const {
  if (part.index == nullptr) return plain_[part.file];
  return part.index->folder + std::string(part.index->shards->shard(part.file));
}

}  // namespace safetensors::file
