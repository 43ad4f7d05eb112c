// What safe_open.prefetch is told to load: {name: None or slice of rows}.
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

// In the order of the file. None: every tensor. plan is None or a dict. Raises SafetensorError.
[[nodiscard]] std::vector<Planned> parse_prefetch_plan(nb::handle plan, const Opened& opened);

// As from_str, with the text that releases from 0.9 on have.
[[nodiscard]] std::string_view from_name(nb::handle name);

}  // namespace safetensors::python
