// What saving needs of its arguments.
#pragma once

#include <optional>

#include "support.h"

namespace safetensors::python {

// dict of str to str, or None. Raises TypeError.
[[nodiscard]] std::optional<MetadataPairs> to_metadata(nb::handle metadata);
// "full", "file" or "none". Raises SafetensorError.
[[nodiscard]] Durability to_durability(nb::handle name);
[[noreturn]] void raise_saving(const Error& error);
// Whether Ctrl-C, or another signal whose handler raises, has come; to be called without the GIL.
[[nodiscard]] bool interrupted();

}  // namespace safetensors::python
