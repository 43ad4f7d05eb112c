// Looks up tensors of many files as one set.
#include <safetensors/checkpoint.h>

#include <set>
#include <utility>

#include "base/error.h"
#include "file/checkpoint.h"
#include "file/checkpoint_paths.h"
#include "file/did_you_mean.h"
#include "file/file.h"
#include "format/checkpoint/shard_index.h"
#include "os/descriptor.h"
#include "os/directory.h"

namespace safetensors {
namespace file {
namespace {

Error not_found(const detail::CheckpointState& state, std::string_view name) {
  DidYouMean similar(name);
  for (const auto& entry : state.entries) {
    if (!similar.offer(entry.info->name)) break;
  }
  return no_tensor(similar, count_of(state.files.size(), "file"), state.entries.size(), state.path);
}

// Files that are in the folder of the index, and are not open.
Result<std::vector<std::string>> stray_files(const detail::CheckpointState& state) {
  const std::string& folder = state.index->folder;
  Result<std::vector<std::string>> names = os::list_directory(state.index->absolute);
  if (!names) return names;
  const auto less = [](std::string_view a, std::string_view b) { return format::shard_less(a, b); };
  std::set<std::string_view, decltype(less)> open(less);
  for (const File& file : state.files) {
    if (file.path().starts_with(folder)) open.insert(std::string_view(file.path()).substr(folder.size()));
  }
  std::erase_if(*names, [&](const std::string& name) {
    return !name.ends_with(".safetensors") || open.contains(name) ||
           os::kind_of(os::join_path(state.index->absolute, name)) == os::PathKind::directory;
  });
  return names;
}

}  // namespace
}  // namespace file

inline namespace v0 {

Checkpoint::Checkpoint(std::shared_ptr<const detail::CheckpointState> state) noexcept : state_(std::move(state)) {}

Result<Checkpoint> Checkpoint::open(PathView path, const CheckpointOptions& options) noexcept {
  return base::guarded([&]() -> Result<Checkpoint> {
    const std::string one(path);
    return open(std::span(&one, 1), options);
  });
}

Result<Checkpoint> Checkpoint::open(std::span<const std::string> paths, const CheckpointOptions& options) noexcept {
  auto state = file::open_checkpoint(paths, options, os::descriptor_limit());
  if (!state) return std::move(state).error();
  return Checkpoint(*std::move(state));
}

Result<std::vector<std::string>> Checkpoint::find_files(PathView path) noexcept {
  return base::guarded([&]() -> Result<std::vector<std::string>> {
    base::Cancellation cancellation;
    file::CheckpointPaths paths(cancellation);
    if (Status status = paths.add(std::string(path)); !status) return std::move(status).error();
    std::vector<std::string> files;
    for (std::size_t i = 0; i < paths.size(); ++i) files.push_back(paths.path(paths[i]));
    return files;
  });
}

Result<Tensor> Checkpoint::tensor(std::string_view name) const noexcept {
  if (const std::uint32_t index = state_->find(name); index != format::NameIndex::kNone) return tensors()[index];
  return base::guarded([&]() -> Result<Tensor> { return file::not_found(*state_, name); });
}

bool Checkpoint::contains(std::string_view name) const noexcept {
  return state_->find(name) != format::NameIndex::kNone;
}

std::span<const File> Checkpoint::files() const& noexcept {
  return state_->files;
}

std::string_view Checkpoint::index_metadata() const& noexcept {
  return state_->index ? std::string_view(state_->index->metadata) : std::string_view();
}

std::optional<std::uint64_t> Checkpoint::index_total_size() const noexcept {
  return state_->index ? state_->index->total_size : std::nullopt;
}

std::vector<Tensor> Checkpoint::unindexed_tensors() const {
  std::vector<Tensor> found;
  for (std::size_t i = 0; i < state_->files.size(); ++i) {
    for (const Tensor& tensor : state_->files[i].tensors()) {
      const std::uint32_t entry = state_->find(tensor.name());
      if (entry == format::NameIndex::kNone || state_->entries[entry].file != i) found.push_back(tensor);
    }
  }
  return found;
}

Result<std::vector<std::string>> Checkpoint::stray_files() const noexcept {
  return base::guarded([&]() -> Result<std::vector<std::string>> {
    if (!state_->index) return std::vector<std::string>();
    return file::stray_files(*state_);
  });
}

}  // namespace v0
}  // namespace safetensors
