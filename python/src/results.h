// Makes the arrays of a framework from the results of a plan.
#pragma once

#include <functional>
#include <span>

#include "framework.h"
#include "support.h"

namespace safetensors::python {

// Executes the plan without the GIL and calls add(index, object) for each item. Needs the GIL.
//
// The object is the item's target if `targets` has one, else an array that the Maker makes. targets: one per item, may
// be null; or empty. Most arrays are made while other threads read the bytes, so add() must show them to nobody. For
// an item whose bytes the Maker reads, add() is first called with None, and again with the array when the bytes are
// there. So the first calls come in the order of the plan.
//
// Returns the report of the plan, or the error of ReadPlan::execute(). Raises the exceptions of the Maker, of signal
// handlers and of progress(). In both cases the caller must drop the objects.
[[nodiscard]] Result<ReadReport> make_results(const ReadPlan& plan, const ReadOptions& options, nb::handle progress,
                                              Maker& maker, std::span<const nb::object> targets,
                                              const std::function<void(std::size_t index, nb::handle object)>& add);

}  // namespace safetensors::python
