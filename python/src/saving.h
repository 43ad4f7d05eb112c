// Parses the arguments of the functions that save, and raises their errors.
#pragma once

#include <optional>

#include "support.h"

namespace safetensors::python {

// metadata: a dict of str to str, or None. Raises TypeError.
[[nodiscard]] std::optional<MetadataPairs> to_metadata(nb::handle metadata);
// name: "full", "file" or "none". Raises SafetensorError.
[[nodiscard]] Durability to_durability(nb::handle name);
// Whether the environment variable SAFETENSORS_IN_PLACE_IF_NO_RENAME is "1". Raises SafetensorError for other texts.
[[nodiscard]] bool in_place_if_no_rename();
// Options of the functions that save whole files. A symlink at the path is replaced, as in the reference: the file
// behind it may be a blob that other links share. durability: as in to_durability().
[[nodiscard]] WriteOptions to_write_options(nb::handle durability);
[[noreturn]] void raise_saving(const Error& error);

}  // namespace safetensors::python
