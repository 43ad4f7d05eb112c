// The function _diff: compares the tensors of two sets of files. The set of files is a Checkpoint of the core.
#include <safetensors/diff.h>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "checkpoint.h"
#include "dtype_names.h"
#include "module.h"
#include "requests.h"

namespace safetensors::python {
namespace {

// The values of TensorDiff.kind, indexed by DiffKind.
constexpr std::array<std::string_view, 5> kKinds = {"only_first", "only_second", "shape", "dtype", "values"};

double to_tolerance(nb::handle object) {
  const double value = PyFloat_AsDouble(object.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}

std::map<std::string, std::string, std::less<>> to_renames(nb::handle object) {
  std::map<std::string, std::string, std::less<>> renames;
  if (object.is_none()) return renames;
  if (!PyDict_Check(object.ptr())) raise_type_error("argument 'rename': expected a dict, not " + name_of_type(object));
  for (const auto& [from, to] : dict_items(object))
    renames[std::string(from_str(from, "rename"))] = from_str(to, "rename");
  return renames;
}

nb::object described(const std::optional<Tensor>& tensor) {
  if (!tensor) return nb::none();
  const TensorInfo& info = tensor->info();
  return nb::make_tuple(to_str(info.name), to_str(to_string(info.dtype)), to_tuple(info.shape));
}

nb::object diff_tuple(const TensorDiff& diff) {
  return nb::make_tuple(to_str(kKinds.at(static_cast<std::size_t>(diff.kind))), described(diff.first),
                        described(diff.second), diff.differing, diff.first_differing, diff.nan_differing,
                        diff.max_error, diff.mean_error);
}

nb::object diff_files(nb::handle first, nb::handle second, nb::handle rtol, nb::handle atol, nb::handle ulps,
                      bool values, nb::handle rename, nb::handle threads, nb::handle progress) {
  Watch watch(progress);
  DiffOptions options{.rtol = to_tolerance(rtol),
                      .atol = to_tolerance(atol),
                      .ulps = to_count(ulps, "ulps"),
                      .values = values,
                      .threads = make_read_options(threads, nb::int_(0), nb::str("auto")).threads,
                      .progress = watch.callback()};
  const std::map<std::string, std::string, std::less<>> renames = to_renames(rename);
  if (!renames.empty()) {
    options.rename = [&renames](std::string_view name) {
      const auto found = renames.find(name);
      return found == renames.end() ? std::string(name) : found->second;
    };
  }
  const Checkpoint one = open_without_maps(first, "first");
  const Checkpoint other = open_without_maps(second, "second");
  const Result<DiffResult> result = [&] {
    const WithoutGil released;
    return diff(one.tensors(), other.tensors(), options);
  }();
  watch.rethrow();
  if (!result) raise_read_error(result.error(), "", "");
  nb::list differences;
  for (const TensorDiff& each : result->tensors) {
    check_signals(differences.size());
    differences.append(diff_tuple(each));
  }
  return nb::make_tuple(differences, result->equal_tensors);
}

}  // namespace

void define_diff(nb::module_& module) {
  module.def("_diff", &diff_files, nb::arg("first").none(), nb::arg("second").none(), nb::kw_only(),
             nb::arg("rtol").none(), nb::arg("atol").none(), nb::arg("ulps").none(), nb::arg("values"),
             nb::arg("rename").none(), nb::arg("threads").none(), nb::arg("progress").none(),
             "(differences, number of equal tensors). A difference is a tuple of the members of TensorDiff.");
}

}  // namespace safetensors::python
