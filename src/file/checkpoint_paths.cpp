// Turns paths into the list of files of a checkpoint. A path may name a file, an index (which stands for its shards), a
// folder (which stands for its one index or file), or it may be a pattern (which stands for all files that match).
#include "file/checkpoint_paths.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/glob.h"
#include "format/checkpoint/model_names.h"
#include "json/reader.h"
#include "os/directory.h"
#include "os/parallel.h"
#include "os/path.h"
#include "os/regular_file.h"

namespace safetensors::file {
namespace {

constexpr std::string_view kIndex = ".safetensors.index.json";
constexpr std::string_view kFirstIndex = "model.safetensors.index.json";

// Names a file of another format in a folder: " (`model.gguf` has another format)".
std::string other_format(const std::vector<std::string>& names) {
  static constexpr std::string_view kOthers[] = {".bin",  ".pt",  ".pth", ".ckpt",    ".pkl", ".gguf",   ".h5",
                                                 ".onnx", ".npz", ".npy", ".msgpack", ".pb",  ".tflite", ".pdparams"};
  for (const std::string& name : names) {
    if (!std::ranges::any_of(kOthers, [&](std::string_view end) { return name.ends_with(end); })) continue;
    return " (`" + printable(name) + "` has another format: convert it first)";
  }
  return "";
}

std::vector<std::string_view> ending_in(std::string_view end, const std::vector<std::string>& names) {
  std::vector<std::string_view> found;
  for (const std::string& name : names) {
    if (name.ends_with(end)) found.push_back(name);
  }
  return found;
}

// Returns whether a name says that its file is one of several: not `-00001-of-00001`.
bool is_shard_of_several(std::string_view name) noexcept {
  const std::optional<format::ShardName> shard = format::parse_shard_name(name);
  if (!shard) return false;
  const std::string_view count =
      shard->count.substr(std::min(shard->count.find_first_not_of('0'), shard->count.size()));
  return !count.empty() && count != "1";
}

// Returns whether an older save can have left the file beside `STEM.safetensors`: a shard of several, or the only file
// of a model in a generation, such as `model-gen00002-00001-of-00001.safetensors`.
bool is_older_shard(std::string_view name) noexcept {
  const std::optional<format::ShardName> shard = format::parse_shard_name(name);
  return is_shard_of_several(name) || (shard && !shard->generation.empty());
}

// Returns whether one of the files is the whole model `STEM.safetensors` and all others are shards of the same stem. An
// older save left these shards. Shards of another stem may be a model whose index is missing.
bool replaces_shards(const std::vector<std::string_view>& files) {
  std::vector<std::string_view> shards;
  std::copy_if(files.begin(), files.end(), std::back_inserter(shards), is_older_shard);
  if (files.size() != shards.size() + 1) return false;
  const auto whole = std::find_if_not(files.begin(), files.end(), is_older_shard);
  return std::all_of(shards.begin(), shards.end(), [&](std::string_view shard) {
    return *whole == format::parse_shard_name(shard)->stem().append(format::kShardExtension);
  });
}

Error ambiguous(const std::string& folder, const std::vector<std::string_view>& names, const char* of_what) {
  constexpr std::size_t kNamed = 8;
  std::string message = "a folder of " + std::to_string(names.size()) + of_what + ", name one of them: ";
  for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i)
    message += (i == 0 ? "`" : ", `") + printable(names[i]) + "`";
  if (names.size() > kNamed) message += " and " + std::to_string(names.size() - kNamed) + " more";
  return base::make_error(Errc::ambiguous_checkpoint, std::move(message), folder);
}

}  // namespace

Result<std::unique_ptr<const format::ShardIndex>> read_index(const std::string& path,
                                                             base::Cancellation& cancellation) {
  const auto file = os::RegularFile::open(path);
  if (!file) return file.error();
  const std::uint64_t size = (*file)->identity().size;
  if (size > format::kMaxIndexBytes)
    return base::make_error(Errc::invalid_index, "index too large: " + std::to_string(size) + " bytes, at most " +
                                                     std::to_string(format::kMaxIndexBytes) + " are read");
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
  const os::PathKind kind = os::kind_of(path);
  if (kind != os::PathKind::nothing) return add_existing(path, kind == os::PathKind::directory);
  if (!base::is_glob(path)) return add_file(path), Status();  // the error comes when the file is opened
  const Result<std::vector<std::string>> matches = os::expand_pattern(path);
  if (!matches) return matches.error();
  if (matches->empty()) return base::make_error(Errc::not_found, "no file matches this pattern", path);
  for (const std::string& match : *matches) {
    if (Status status = add_existing(match, os::kind_of(match) == os::PathKind::directory); !status) return status;
  }
  return {};
}

Status CheckpointPaths::add_existing(const std::string& path, bool folder) {
  if (folder) return add_folder(path);
  if (path.ends_with(".json")) return add_index(path);
  return add_file(path), Status();
}

Status CheckpointPaths::add_folder(const std::string& path) {
  const Result<std::vector<std::string>> names = os::list_directory(path);
  if (!names) return names.error();
  if (std::find(names->begin(), names->end(), kFirstIndex) != names->end())
    return add_index(os::join_path(path, kFirstIndex));
  const std::vector<std::string_view> indexes = ending_in(kIndex, *names);
  if (indexes.size() > 1) return ambiguous(path, indexes, " indexes");
  if (!indexes.empty()) return add_index(os::join_path(path, indexes[0]));
  std::vector<std::string_view> files = ending_in(format::kShardExtension, *names);
  std::vector<std::string_view> shards;
  std::copy_if(files.begin(), files.end(), std::back_inserter(shards), is_shard_of_several);
  if (replaces_shards(files)) std::erase_if(files, is_older_shard);
  if (files.size() == 1 && shards.size() == 1 && files[0] == shards[0])
    return base::make_error(Errc::not_found,
                            "a folder with one shard of a model, `" + printable(shards[0]) +
                                "`, and without the index: name the file to open it alone",
                            path);
  if (files.size() > 1) return ambiguous(path, files, " safetensors files without an index");
  if (files.empty())
    return base::make_error(Errc::not_found,
                            "a folder without a safetensors file or an index of them" + other_format(*names), path);
  return add_file(os::join_path(path, files[0])), Status();
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
