// Opening a Checkpoint: its files' headers, and which of their tensors are seen.
#pragma once

#include <safetensors/checkpoint.h>

#include <memory>
#include <span>
#include <string>

#include "api/checkpoint_state.h"

namespace safetensors::api {

// descriptors: how many the files may keep open. Errors: as Checkpoint::open.
[[nodiscard]] Result<std::shared_ptr<const detail::CheckpointState>> open_checkpoint(std::span<const std::string> paths,
                                                                                     const CheckpointOptions& options,
                                                                                     std::size_t descriptors) noexcept;

}  // namespace safetensors::api
