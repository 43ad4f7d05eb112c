// A view of the tensors of a File or a Checkpoint. It makes each Tensor when it is asked for.
#include <safetensors/checkpoint.h>

#include "file/checkpoint.h"
#include "file/file.h"

namespace safetensors {
inline namespace v0 {

std::size_t Tensors::size() const noexcept {
  if (file_ != nullptr) return file_->header.size();
  return checkpoint_ == nullptr ? 0 : checkpoint_->entries.size();
}

Tensor Tensors::operator[](std::size_t index) const noexcept {
  if (file_ != nullptr) return {file_->shared_from_this(), &file_->header.tensors()[index]};
  const detail::CheckpointState::Entry& entry = checkpoint_->entries[index];
  return detail::Access<Tensor>::make(checkpoint_->files[entry.file], *entry.info);
}

}  // namespace v0
}  // namespace safetensors
