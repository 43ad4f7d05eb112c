// Parses the argument `device` into the name that frameworks use. Knows torch.device by its attributes, so that torch
// need not be imported.
#include "device.h"

#include <array>
#include <charconv>

namespace safetensors::python {
namespace {

// The devices with an ordinal: "cuda" is cuda:0.
constexpr std::array<std::string_view, 7> kNumbered = {"cuda", "npu", "xpu", "xla", "mlu", "musa", "hpu"};

[[noreturn]] void raise_invalid(std::string_view shown) {
  raise("device " + std::string(shown) + " is invalid");
}

Device numbered(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  for (const std::string_view known : kNumbered) {
    if (kind != known) continue;
    unsigned ordinal = 0;
    if (colon != std::string_view::npos) {
      const std::string_view digits = text.substr(colon + 1);
      const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
      if (problem != std::errc() || end != digits.data() + digits.size()) raise_invalid(text);
    }
    const std::string name = std::string(kind) + ":" + std::to_string(ordinal);
    return {name, name};
  }
  raise_invalid(text);
}

Device parse_text(std::string_view text) {
  if (text == "cpu" || text == "cpu:0") return {};
  if (text == "mps" || text == "mps:0") return {"mps", "mps"};
  if (text.starts_with("mps:")) raise("device " + std::string(text) + " is invalid: only mps or mps:0 is supported");
  return numbered(text);
}

}  // namespace

Device parse_device(nb::handle device) {
  if (device.is_none()) return {};
  if (PyUnicode_Check(device.ptr())) return parse_text(from_str(device, "device"));
  if (PyIndex_Check(device.ptr()) != 0 && !PyBool_Check(device.ptr())) {
    const nb::object index = own(PyNumber_Index(device.ptr()));
    int overflow = 0;
    const long ordinal = PyLong_AsLongAndOverflow(index.ptr(), &overflow);
    const std::string shown = nb::cast<std::string>(nb::str(index));
    if (overflow != 0 || ordinal < 0) raise_invalid(shown);
    return {shown, "cuda:" + shown};
  }
  if (name_of_type(device) == "device" && nb::hasattr(device, "type") && nb::hasattr(device, "index"))
    return parse_text(nb::cast<std::string>(nb::str(device)));
  raise_invalid(nb::cast<std::string>(nb::repr(device)));
}

}  // namespace safetensors::python
