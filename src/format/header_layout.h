// Rules 6 to 10, over a header's entries.
#pragma once

#include <safetensors/error.h>

#include "format/header_state.h"

namespace safetensors::format {

// Puts the tensors in order and checks them. laid_out: they are known to be in order and to keep rules 6 to 9.
// Throws std::bad_alloc.
[[nodiscard]] Status check_layout(detail::HeaderState& state, bool laid_out);

}  // namespace safetensors::format
