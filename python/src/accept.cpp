// Turns the names of faults into flags, and the numbers of faults that were found into a dict.
#include "accept.h"

namespace safetensors::python {

Accept parse_accept(nb::handle given) {
  Accept accept;
  const auto add = [&](nb::handle item) {
    const std::string_view name = from_str(item, "accept");
    if (name == "unknown_dtypes")
      accept.unknown_dtypes = true;
    else if (name == "unused_bytes")
      accept.unused_bytes = true;
    else
      raise("accept has `" + printable(name) + "`, expected \"unknown_dtypes\" or \"unused_bytes\"");
  };
  if (given.is_none()) return accept;
  if (PyUnicode_Check(given.ptr())) {
    add(given);
    return accept;
  }
  for (const nb::handle item : nb::iter(given)) add(item);
  return accept;
}

nb::dict to_dict(const Tolerated& found) {
  nb::dict result;
  if (!found.any()) return result;
  result["unknown_dtypes"] = found.unknown_dtypes;
  result["unused_bytes"] = found.unused_bytes;
  return result;
}

}  // namespace safetensors::python
