// The argument `accept` of the classes that open files, and the result of `tolerated()`.
#pragma once

#include "support.h"

namespace safetensors::python {

// given: None, one name of a fault ("unknown_dtypes" or "unused_bytes"), or an iterable of names. Raises
// SafetensorError for another name, TypeError for other objects.
[[nodiscard]] Accept parse_accept(nb::handle given);

// Returns the dict that `tolerated()` returns. It is empty if there are no faults.
[[nodiscard]] nb::dict to_dict(const Tolerated& found);

}  // namespace safetensors::python
