// Parses the plan of safe_open.prefetch: {name: None, slice of rows, or a tuple with a list of slices per dimension}.
#pragma once

#include <utility>
#include <vector>

#include "reader.h"
#include "support.h"

namespace safetensors::python {

// The elements of each dimension of an array: ranges [begin, end), one behind the other. No ranges: all elements.
using Picks = std::vector<std::vector<std::pair<std::uint64_t, std::uint64_t>>>;

struct Planned {
  Tensor tensor;
  Slice slice = {};  // from the first to the last element of each dimension
  Picks picks = {};  // of this slice
};

// Returns the picked elements of the array that was read.
[[nodiscard]] Array pick(Array array, const Picks& picks);

// Returns the items in the order of the file. plan: a dict, or None for every tensor. Raises SafetensorError.
[[nodiscard]] std::vector<Planned> parse_prefetch_plan(nb::handle plan, const Reader& reader);

}  // namespace safetensors::python
