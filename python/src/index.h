// Parses the index of a slice: the object between the brackets.
#pragma once

#include <optional>

#include "support.h"

namespace safetensors::python {

// Parses an index as NumPy does, but a bound past the end is an error. A start equal to the dimension gives an empty
// slice. shape: the tensor's. Raises SafetensorError, and TypeError for bounds that are not integers.
[[nodiscard]] Slice parse_index(nb::handle index, ShapeView shape);

// The parts of an index that has only integers, slices, None and one Ellipsis.
struct TorchIndex {
  Slice slice;
  bool new_axes = false;  // whether the index has None. Then result[axes] adds these axes to the sliced tensor.
  nb::object axes;
};
// nullopt for any other index, and for one that torch refuses: the caller leaves it to torch.
[[nodiscard]] std::optional<TorchIndex> parse_torch_index(nb::handle index, ShapeView shape);

// Raises the error of the reference's pread backend for an index of integers, slices and an Ellipsis that torch
// refuses, too. Nothing has been read by then. Returns for every other index, and for steps below 1: torch decides
// about these.
void refuse_torch_index(nb::handle index, ShapeView shape);
// Raises SafetensorError if a tensor on the meta device is part of the index: torch would read arbitrary memory.
void refuse_meta_index(nb::handle index);

}  // namespace safetensors::python
