// safe_open.prefetch: reads tensors in the background.
#pragma once

#include <functional>
#include <memory>

#include "opened.h"
#include "support.h"

namespace safetensors::python {

void define_prefetch(nb::module_& module);

// Returns a PrefetchLoader that has begun to read. `open` returns the file or raises. It is called after the arguments
// were checked, as in the reference.
[[nodiscard]] nb::object start_prefetch(nb::handle plan, nb::handle device, nb::handle threads,
                                        const std::function<std::shared_ptr<Opened>()>& open);

}  // namespace safetensors::python
