// Overlaps the making of objects with reading. For many small tensors, making the objects takes as long as reading a
// quarter of the bytes, and it needs one thread only. So it runs in the calling thread while other threads read.
#include "results.h"

#include <utility>

#include "requests.h"

namespace safetensors::python {

Result<ReadReport> make_results(const ReadPlan& plan, const ReadOptions& options, nb::handle progress, Maker& maker,
                                std::span<const nb::object> targets,
                                const std::function<void(std::size_t index, nb::handle object)>& add) {
  const auto has_target = [&](std::size_t i) { return i < targets.size() && targets[i].is_valid(); };
  Watch watch(progress);
  Result<ReadResult> read = watch.execute(plan, options, [&](std::span<const Array> arrays) {
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      check_signals(i);
      if (has_target(i))
        add(i, targets[i]);
      else
        add(i, maker.reads(arrays[i].dtype()) ? nb::none() : maker.make(arrays[i]));
    }
  });
  if (!read) return std::move(read).error();
  for (std::size_t i = 0; i < read->arrays.size(); ++i) {
    // Releases the memory of each array as soon as the framework has copied it.
    const Array array = std::exchange(read->arrays[i], Array());
    if (has_target(i) || !maker.reads(array.dtype())) continue;
    check_signals(i);
    add(i, maker.make(array));
  }
  return std::move(read->report);
}

}  // namespace safetensors::python
