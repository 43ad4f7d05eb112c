// Checks a prefetch plan against the header. The order of the checks and the error texts are those of the reference.
#include "prefetch_plan.h"

#include <map>
#include <string>

namespace safetensors::python {
namespace {

std::string shown_type(nb::handle object) {
  return nb::cast<std::string>(nb::str(object.type()));
}

std::string_view key_of(nb::handle key) {
  Py_ssize_t size = 0;
  const char* const bytes = PyUnicode_Check(key.ptr()) ? PyUnicode_AsUTF8AndSize(key.ptr(), &size) : nullptr;
  if (bytes != nullptr) return {bytes, static_cast<std::size_t>(size)};
  PyErr_Clear();  // a lone surrogate: no header can hold such a name
  raise("prefetch plan keys must be tensor names");
}

[[noreturn]] void raise_bounds(const std::string& name) {
  if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw nb::python_error();
  PyErr_Clear();
  raise("prefetch plan slice bounds for " + name + " must be integers or None");
}

// A bound outside of the rows is an error. Nothing is clamped.
std::int64_t to_row(nb::handle bound, const char* which, const std::string& name, std::uint64_t rows) {
  const nb::object number = nb::steal(PyNumber_Index(bound.ptr()));
  if (!number.is_valid()) raise_bounds(name);
  const long long value = PyLong_AsLongLong(number.ptr());
  if (value == -1 && PyErr_Occurred()) raise_bounds(name);
  const std::uint64_t from_end = ~static_cast<std::uint64_t>(value) + 1;  // -value, for a negative value
  if (value < 0 ? from_end <= rows : static_cast<std::uint64_t>(value) <= rows) return value;
  raise("prefetch plan slice " + std::string(which) + " " + std::to_string(value) + " for " + name +
        " is out of range for " + std::to_string(rows) + " rows");
}

std::optional<std::int64_t> to_optional_row(nb::handle slice, const char* which, const std::string& name,
                                            std::uint64_t rows) {
  const nb::object bound = slice.attr(which);
  if (bound.is_none()) return std::nullopt;
  return to_row(bound, which, name, rows);
}

void check_step(nb::handle slice, const std::string& name) {
  Py_ssize_t begin = 0;
  Py_ssize_t end = 0;
  Py_ssize_t step = 1;
  if (PySlice_Unpack(slice.ptr(), &begin, &end, &step) != 0) {
    if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw nb::python_error();
    const nb::python_error error;
    raise("invalid prefetch plan slice for " + name + ": " + name_of_type(error.value()) + ": " +
          nb::cast<std::string>(nb::str(error.value())));
  }
  if (step != 1) raise("prefetch plan slices must have step 1, got " + std::to_string(step) + " for " + name);
}

// name: the name in error messages.
std::optional<DimSlice> rows_of(nb::handle value, const std::string& name, ShapeView shape) {
  if (value.is_none()) return std::nullopt;
  if (!PySlice_Check(value.ptr()))
    raise("prefetch plan values must be None or a slice, got " + shown_type(value) + " for " + name);
  if (shape.empty()) raise("cannot slice rows of the 0-d tensor " + name);
  const std::optional<std::int64_t> begin = to_optional_row(value, "start", name, shape[0]);
  const std::optional<std::int64_t> end = to_optional_row(value, "stop", name, shape[0]);
  check_step(value, name);
  return DimSlice::range(begin, end);
}

}  // namespace

std::string_view from_name(nb::handle name) {
  if (name.is_none()) raise_type_error("'None' is not an instance of 'str'");
  if (!PyUnicode_Check(name.ptr())) raise_type_error("'" + name_of_type(name) + "' object is not an instance of 'str'");
  return from_str(name, "name");
}

std::vector<Planned> parse_prefetch_plan(nb::handle plan, const Opened& opened) {
  std::vector<Planned> planned;
  const Header& header = opened.header();
  if (plan.is_none()) {
    for (const TensorInfo& tensor : header.tensors()) {
      check_signals(planned.size());
      planned.push_back({opened.find(tensor.name)});
    }
    return planned;
  }
  const auto items = dict_items(plan);  // a copy: an __index__ or another thread may change the caller's dict
  if (items.empty()) raise("prefetch plan selects no tensors");
  std::map<const TensorInfo*, std::optional<DimSlice>> wanted;
  for (const auto& [key, value] : items) {
    check_signals(wanted.size());
    const std::string_view name = key_of(key);
    const Tensor tensor = opened.find(name);
    wanted[header.find(name)] = rows_of(value, printable(name), tensor.shape());
  }
  std::size_t round = 0;
  for (const TensorInfo& tensor : header.tensors()) {
    check_signals(round++);
    const auto found = wanted.find(&tensor);
    if (found != wanted.end()) planned.push_back({opened.find(tensor.name), found->second});
  }
  return planned;
}

}  // namespace safetensors::python
