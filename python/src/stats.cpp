// The function _stats: statistics of tensors of a _Checkpoint. The selected tensors are a sorted list of pointers. A
// hash table of names could be made slow by a file.
#include <safetensors/stats.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "checkpoint.h"
#include "module.h"
#include "requests.h"

namespace safetensors::python {
namespace {

using Selected = std::vector<const TensorInfo*>;

Selected find_selected(const Checkpoint& checkpoint, nb::handle names) {
  Selected selected;
  for (const nb::handle name : nb::iter(names)) {
    check_signals(selected.size());
    const Tensor tensor = find_tensor(checkpoint, name);
    selected.push_back(&tensor.info());  // lives as long as the checkpoint
  }
  std::ranges::sort(selected, std::less<>());
  return selected;
}

// None: no number is finite.
nb::object to_number(const TensorStats& stats, double value) {
  return stats.finite() > 0 ? nb::object(nb::float_(value)) : nb::none();
}

nb::list to_bins(const std::vector<StatsBin>& histogram) {
  nb::list bins;
  for (const StatsBin& bin : histogram) bins.append(nb::make_tuple(bin.exponent, bin.negative, bin.positive));
  return bins;
}

nb::object describe_stats(const TensorStats& stats, bool histogram) {
  const TensorInfo& info = stats.tensor.info();
  return nb::make_tuple(to_str(info.name), to_str(to_string(info.dtype)), to_tuple(info.shape), stats.count, stats.nan,
                        stats.positive_infinity, stats.negative_infinity, stats.zeros, to_number(stats, stats.min),
                        to_number(stats, stats.max), to_number(stats, stats.abs_max()), to_number(stats, stats.mean),
                        to_number(stats, stats.standard_deviation),
                        histogram ? nb::object(to_bins(stats.histogram)) : nb::none());
}

nb::list stats_of(const PyCheckpoint& checkpoint, nb::handle names, bool histogram, nb::handle threads,
                  nb::handle progress) {
  Watch watch(progress);
  StatsOptions options{.histogram = histogram,
                       .threads = make_read_options(threads, nb::int_(0), nb::str("auto")).threads,
                       .progress = watch.callback()};
  Selected selected;
  if (!names.is_none()) {
    selected = find_selected(checkpoint.get(), names);
    options.select = [&selected](const Tensor& tensor) {
      return std::ranges::binary_search(selected, &tensor.info(), std::less<>());
    };
  }
  const Result<std::vector<TensorStats>> result = [&] {
    const WithoutGil released;
    return stats(checkpoint.get().tensors(), options);
  }();
  watch.rethrow();
  if (!result) raise_read_error(result.error(), "", "");
  nb::list found;
  for (const TensorStats& each : *result) {
    check_signals(found.size());
    found.append(describe_stats(each, histogram));
  }
  return found;
}

}  // namespace

void define_stats(nb::module_& module) {
  module.def("_stats", &stats_of, nb::arg("checkpoint"), nb::arg("names").none(), nb::kw_only(), nb::arg("histogram"),
             nb::arg("threads").none(), nb::arg("progress").none(),
             "A tuple for each tensor, in the order of the files: the members of the class TensorStats of the package. "
             "names: None for all tensors.");
}

}  // namespace safetensors::python
