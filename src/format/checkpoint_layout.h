// Makes a CheckpointLayout from tensors that are described one at a time.
#pragma once

#include <safetensors/checkpoint_layout.h>
#include <safetensors/error.h>

#include <cstddef>
#include <functional>

namespace safetensors::format {

// The tensors of a new model. Unlike a list of CheckpointTensor, it takes no memory per tensor.
struct TensorSequence {
  std::size_t size = 0;
  std::function<CheckpointTensor(std::size_t index)> at;  // for index < size; may be called several times
};

// Does the same as CheckpointLayout::make(). Throws std::bad_alloc.
[[nodiscard]] Result<CheckpointLayout> make_layout(const TensorSequence& tensors,
                                                   const CheckpointLayoutOptions& options);

}  // namespace safetensors::format
