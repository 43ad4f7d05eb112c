// safe_open.prefetch: tensors that are read in the background while others are used.
#pragma once

#include <functional>
#include <memory>

#include "opened.h"
#include "support.h"

namespace safetensors::python {

void define_prefetch(nb::module_& module);

// A PrefetchLoader that has begun. `open` gives the file, or raises; it is called behind the checks of the arguments.
[[nodiscard]] nb::object start_prefetch(nb::handle plan, nb::handle device, nb::handle threads,
                                        const std::function<std::shared_ptr<Opened>()>& open);

}  // namespace safetensors::python
