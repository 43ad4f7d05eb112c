// Turns the requests and options of a load into a ReadPlan and ReadOptions, and makes arrays of its results.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "framework.h"
#include "reader.h"
#include "support.h"

namespace safetensors::python {

// A plan, and for each item the caller's own array that it is read into, or null.
struct Requests {
  ReadPlan plan;
  std::vector<nb::object> targets;
};

// Returns an argument that is a number of bytes or of threads. Raises TypeError for an object that is not an integer,
// and SafetensorError, which names the argument, for an integer outside of 0 to 2^64-1.
[[nodiscard]] std::uint64_t to_count(nb::handle object, const char* argument);

// name: a name of the format, such as "F32", or None. Raises SafetensorError for any other text.
[[nodiscard]] std::optional<Dtype> to_dtype(nb::handle name);

// requests: a sequence of (name, index, dtype, target). index: the index of a slice, or None for the whole tensor.
// dtype: the format's name of the dtype to cast to, or None. target: (address, size in bytes, strides in bytes or None,
// object), followed by the ordinal of a CUDA device if the memory is on one. None allocates new memory. Raises
// MissingTensorError for an unknown name, and SafetensorError.
[[nodiscard]] Requests make_requests(const Reader& reader, nb::handle requests);

struct LoadOptions {
  ReadOptions read;
  nb::object progress;      // a callable or None
  bool to_devices = false;  // all targets are on CUDA devices
};
// options: threads, memory_limit (0 for automatic); cache ("auto", "keep" or "fill"); progress; and,
// if all targets are on CUDA devices, device_stream, a CUstream: copies begin after the work that it already has.
// Raises SafetensorError, TypeError.
[[nodiscard]] LoadOptions make_load_options(const nb::kwargs& options);

// Executes the plan without the GIL and calls add(index, object) for each item. Needs the GIL.
//
// The object is the item's target if `targets` has one, else an array that the Maker makes. targets: one per item, may
// be null; or empty. Most arrays are made while other threads read the bytes, so add() must show them to nobody. For
// an item whose bytes the Maker reads, add() is first called with None, and again with the array when the bytes are
// there. So the first calls come in the order of the plan.
//
// Returns the error of ReadPlan::execute(). Raises the exceptions of the Maker, of signal handlers and of progress().
// In both cases the caller must drop the objects.
[[nodiscard]] Status make_results(const ReadPlan& plan, const ReadOptions& options, nb::handle progress, Maker& maker,
                                  std::span<const nb::object> targets,
                                  const std::function<void(std::size_t index, nb::handle object)>& add);

// The results of the requests, in their order.
[[nodiscard]] nb::list load_tensors(Reader& reader, nb::handle requests, const LoadOptions& options);
// Returns an iterator of (index, array).
[[nodiscard]] nb::object start_stream(Reader& reader, nb::handle requests, const LoadOptions& options);

}  // namespace safetensors::python
