// The class _CheckpointLayout: which tensors of a model go into which file.
#pragma once

#include "support.h"

namespace safetensors::python {

class PyCheckpointLayout {
 public:
  explicit PyCheckpointLayout(CheckpointLayout layout) : layout_(std::move(layout)) {}
  [[nodiscard]] const CheckpointLayout& get() const noexcept { return layout_; }

 private:
  CheckpointLayout layout_;
};

// Returns the layout of an object. Raises TypeError for an object of another type.
[[nodiscard]] const CheckpointLayout& to_layout(nb::handle object);

void define_checkpoint_layout(nb::module_& module);

}  // namespace safetensors::python
