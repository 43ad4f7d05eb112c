// The function _lint: the findings of lint() about a set of files.
#include <safetensors/lint.h>

#include <vector>

#include "checkpoint.h"
#include "module.h"
#include "requests.h"

namespace safetensors::python {
namespace {

nb::object describe_finding(const LintFinding& finding, std::span<const File> files) {
  const bool about_tensor = !finding.tensor.empty() || finding.code == LintCode::empty_name;
  return nb::make_tuple(to_str(to_string(finding.code)), to_str(to_string(severity(finding.code))),
                        finding.file ? from_path(files[*finding.file].path()) : nb::none(),
                        about_tensor ? to_str(finding.tensor) : nb::none(), finding.count, finding.bytes,
                        to_str(printable(finding.message)), to_str(advice(finding.code)));
}

nb::list lint_files(nb::handle paths, bool peek, bool duplicates, nb::handle progress) {
  Watch watch(progress);
  Watch signals;  // the reads of peek have no progress
  LintOptions options{.peek = peek, .duplicates = duplicates};
  options.progress = watch.callback();
  options.cancelled = signals.cancelled();
  const Checkpoint checkpoint = open_without_maps(paths, "paths", true);  // leading white space is a finding
  const Result<std::vector<LintFinding>> result = [&] {
    const WithoutGil released;
    return lint(checkpoint, options);
  }();
  signals.rethrow();
  watch.rethrow();
  if (!result) raise_read_error(result.error(), "", "");
  nb::list found;
  for (const LintFinding& each : *result) {
    check_signals(found.size());
    found.append(describe_finding(each, checkpoint.files()));
  }
  return found;
}

}  // namespace

void define_lint(nb::module_& module) {
  module.def("_lint", &lint_files, nb::arg("paths").none(), nb::kw_only(), nb::arg("peek"), nb::arg("duplicates"),
             nb::arg("progress").none(),
             "A tuple for each finding: the members of the class LintFinding of the package.");
}

}  // namespace safetensors::python
