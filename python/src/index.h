// What stands between a slice's brackets.
#pragma once

#include <optional>

#include "support.h"

namespace safetensors::python {

// As NumPy reads it, but bounds past the end are an error (start equal to the dimension is empty). shape: the
// tensor's. Raises SafetensorError, TypeError for bounds that are no integers.
[[nodiscard]] Slice parse_index(nb::handle index, ShapeView shape);

// An index of integers, slices, None and one Ellipsis only, none of them beyond what torch accepts; nullopt for any
// other, which is left to torch itself.
struct TorchIndex {
  Slice slice;
  bool new_axes = false;  // then `axes` is what makes them, of the sliced tensor
  nb::object axes;
};
[[nodiscard]] std::optional<TorchIndex> parse_torch_index(nb::handle index, ShapeView shape);

// Raises what the reference's pread raises for an index of integers, slices and ellipses that torch refuses too, before
// anything is read. Returns for every other index: torch decides. Steps below 1 are torch's error as well.
void refuse_torch_index(nb::handle index, ShapeView shape);
// Raises SafetensorError for a tensor of the meta device among the items: torch would read memory at random.
void refuse_meta_index(nb::handle index);

}  // namespace safetensors::python
