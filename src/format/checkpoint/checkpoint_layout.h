// Makes a CheckpointLayout from tensors that are described one at a time.
#pragma once

#include <safetensors/checkpoint_layout.h>
#include <safetensors/error.h>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "format/checkpoint/model_names.h"

namespace safetensors::format {

// The tensors of a new model. Unlike a list of CheckpointTensor, it takes no memory per tensor.
struct TensorSequence {
  std::size_t size = 0;
  std::function<CheckpointTensor(std::size_t index)> at;  // for index < size; may be called several times
};

// Returns the stem of the names of a layout's files.
[[nodiscard]] std::string stem_of(const CheckpointLayout& layout);

// Does the same as CheckpointLayout::make(), but takes the result of metadata_member(), or an empty text, instead of
// the pairs in `options`. So the caller can free the pairs before. names: null: those of the stem. Throws
// std::bad_alloc.
[[nodiscard]] Result<CheckpointLayout> make_layout(const TensorSequence& tensors,
                                                   const CheckpointLayoutOptions& options,
                                                   const Result<std::string>& metadata,
                                                   const ModelNames* names = nullptr);

}  // namespace safetensors::format
