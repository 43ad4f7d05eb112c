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

// Returns the member `__metadata__` of every header as text: see metadata_member(). Empty: none.
using MetadataMember = std::function<Result<std::string>()>;

// Returns the stem of the names of a layout's files.
[[nodiscard]] std::string stem_of(const CheckpointLayout& layout);

// Does the same as CheckpointLayout::make(), but calls `metadata`, once, instead of reading the pairs in `options`. So
// the caller can free the pairs before the headers take memory. names: null: those of the stem. Throws std::bad_alloc.
[[nodiscard]] Result<CheckpointLayout> make_layout(const TensorSequence& tensors,
                                                   const CheckpointLayoutOptions& options,
                                                   const MetadataMember& metadata, const ModelNames* names = nullptr);

}  // namespace safetensors::format
