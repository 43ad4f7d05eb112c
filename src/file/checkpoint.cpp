// Looks up tensors of many files as one set.
#include <safetensors/checkpoint.h>

#include <utility>

#include "base/error.h"
#include "file/checkpoint.h"
#include "file/checkpoint_paths.h"
#include "file/did_you_mean.h"
#include "file/file.h"
#include "os/descriptor.h"

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

Result<Checkpoint> Checkpoint::open(Span<const std::string> paths, const CheckpointOptions& options) noexcept {
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

Span<const File> Checkpoint::files() const& noexcept {
  return state_->files;
}

std::string_view Checkpoint::index_name() const& noexcept {
  return state_->index && !state_->path.empty() ? std::string_view(state_->index->name) : std::string_view();
}

std::string_view Checkpoint::index_metadata() const& noexcept {
  return state_->index ? std::string_view(state_->index->metadata) : std::string_view();
}

}  // namespace v0
}  // namespace safetensors
