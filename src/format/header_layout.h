// Rules 6 to 10, over a header's entries.
#pragma once

#include <safetensors/error.h>

#include "format/header_state.h"

namespace safetensors::format {

// Puts the tensors in order and checks them. in_order: they are known to be in order, each beginning where the one
// before it ends. sizes_fit: rules 7 to 9 are known to hold for each. Error also: cancelled. Throws
// std::bad_alloc.
[[nodiscard]] Status check_layout(detail::HeaderState& state, bool in_order, bool sizes_fit,
                                  base::Cancellation& cancellation);

}  // namespace safetensors::format
