// Parses the arguments of the functions that save, and raises their errors.
#pragma once

#include <optional>

#include "support.h"

namespace safetensors::python {

// metadata: a dict of str to str, or None. Raises TypeError.
[[nodiscard]] std::optional<MetadataPairs> to_metadata(nb::handle metadata);
// name: "full", "file" or "none". Raises SafetensorError.
[[nodiscard]] Durability to_durability(nb::handle name);
[[noreturn]] void raise_saving(const Error& error);
// Runs signal handlers. Returns true if one raised an exception, as that of Ctrl-C does. Call it without the GIL.
[[nodiscard]] bool interrupted();

}  // namespace safetensors::python
