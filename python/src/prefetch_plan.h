// Parses the plan of safe_open.prefetch: {name: None or slice of rows}.
#pragma once

#include <optional>
#include <vector>

#include "opened.h"
#include "support.h"

namespace safetensors::python {

struct Planned {
  Tensor tensor;
  std::optional<DimSlice> rows = std::nullopt;
};

// Returns the items in the order of the file. plan: a dict, or None for every tensor. Raises SafetensorError.
[[nodiscard]] std::vector<Planned> parse_prefetch_plan(nb::handle plan, const Opened& opened);

// As from_str, with the error text of the reference's releases from 0.9 on.
[[nodiscard]] std::string_view from_name(nb::handle name);

}  // namespace safetensors::python
