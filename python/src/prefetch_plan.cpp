// Checks a prefetch plan against the header. The order of the checks and the error texts are those of the reference.
#include "prefetch_plan.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
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

using Range = std::pair<std::uint64_t, std::uint64_t>;

Range range_of(nb::handle slice, const std::string& name, std::uint64_t rows) {
  const std::int64_t begin = to_optional_row(slice, "start", name, rows).value_or(0);
  const std::int64_t end = to_optional_row(slice, "stop", name, rows).value_or(static_cast<std::int64_t>(rows));
  check_step(slice, name);
  const auto from_start = [&](std::int64_t row) { return static_cast<std::uint64_t>(row) + (row < 0 ? rows : 0); };
  return {from_start(begin), std::max(from_start(begin), from_start(end))};
}

// The slices of each dimension that the value names, or nullopt for a value of another form.
std::optional<std::vector<std::vector<nb::object>>> slices_of(nb::handle value) {
  if (PySlice_Check(value.ptr())) return {{{nb::borrow(value)}}};
  if (!PyTuple_Check(value.ptr())) return std::nullopt;
  std::vector<std::vector<nb::object>> all;
  for (const nb::handle dimension : nb::iter(value)) {
    if (!PyList_Check(dimension.ptr())) return std::nullopt;
    all.emplace_back();
    for (const nb::handle slice : nb::iter(dimension)) {
      if (!PySlice_Check(slice.ptr())) return std::nullopt;
      all.back().push_back(nb::borrow(slice));
    }
  }
  return all;
}

// name: the name in error messages.
Planned planned_of(Tensor tensor, nb::handle value, const std::string& name) {
  Planned planned{std::move(tensor)};
  if (value.is_none()) return planned;
  const ShapeView shape = planned.tensor.shape();
  const auto slices = slices_of(value);
  if (!slices || (!shape.empty() && slices->size() > shape.size()))
    raise("prefetch plan values must be None or a slice, got " + shown_type(value) + " for " + name);
  if (shape.empty() && !slices->empty()) raise("cannot slice rows of the 0-d tensor " + name);
  std::vector<DimSlice> hull;
  for (std::size_t i = 0; i < slices->size(); ++i) {
    std::vector<Range>& ranges = planned.picks.emplace_back();
    for (const nb::object& slice : (*slices)[i]) ranges.push_back(range_of(slice, name, shape[i]));
    std::uint64_t first = ranges.empty() ? 0 : ranges.front().first;
    std::uint64_t last = ranges.empty() ? 0 : ranges.front().second;
    for (const Range& range : ranges) first = std::min(first, range.first), last = std::max(last, range.second);
    for (Range& range : ranges) range = {range.first - first, range.second - first};
    hull.push_back(DimSlice::range(static_cast<std::int64_t>(first), static_cast<std::int64_t>(last)));
    if (ranges.size() < 2) ranges.clear();
    if (!ranges.empty() && bits(planned.tensor.dtype()) < 8)
      raise("prefetch cannot join slices of " + name + ": its elements are smaller than a byte");
  }
  planned.slice = Slice(std::move(hull));
  return planned;
}

}  // namespace

std::string_view from_name(nb::handle name) {
  if (name.is_none()) raise_type_error("'None' is not an instance of 'str'");
  if (!PyUnicode_Check(name.ptr())) raise_type_error("'" + name_of_type(name) + "' object is not an instance of 'str'");
  return from_str(name, "name");
}

Array pick(Array array, const Picks& picks) {
  for (std::size_t i = 0; i < picks.size(); ++i) {
    const std::vector<Range>& ranges = picks[i];
    if (ranges.empty()) continue;
    const ShapeView shape = array.shape();
    std::vector<std::uint64_t> picked(shape.begin(), shape.end());
    std::uint64_t inner = bits(array.dtype());
    for (std::size_t at = i + 1; at < shape.size(); ++at) inner *= shape[at];
    const std::size_t row = static_cast<std::size_t>(inner) / 8;
    picked[i] = 0;
    for (const Range& range : ranges) picked[i] += range.second - range.first;
    const std::size_t size = array.bytes().size() / std::max<std::size_t>(shape[i], 1) * picked[i];
    const std::shared_ptr<std::byte[]> memory(new std::byte[std::max<std::size_t>(size, 1)]);
    std::byte* to = memory.get();
    for (const std::byte* from = array.bytes().data(); to != memory.get() + size; from += shape[i] * row) {
      for (const Range& range : ranges)
        to = std::copy_n(from + range.first * row, (range.second - range.first) * row, to);
    }
    array = Array(array.dtype(), Shape(picked), {memory.get(), size}, memory, MemoryKind::owned);
  }
  return array;
}

std::vector<Planned> parse_prefetch_plan(nb::handle plan, const Reader& reader) {
  std::vector<Planned> planned;
  const Header& header = reader.header();
  if (plan.is_none()) {
    for (const Tensor& tensor : reader.list()) {
      check_signals(planned.size());
      planned.push_back({tensor});
    }
    return planned;
  }
  const auto items = dict_items(plan);  // a copy: an __index__ or another thread may change the caller's dict
  if (items.empty()) raise("prefetch plan selects no tensors");
  std::map<const TensorInfo*, Planned> wanted;
  for (const auto& [key, value] : items) {
    check_signals(wanted.size());
    const std::string_view name = key_of(key);
    wanted.insert_or_assign(header.find(name), planned_of(reader.find(key), value, printable(name)));
  }
  std::size_t round = 0;
  for (const TensorInfo& tensor : header.tensors()) {
    check_signals(round++);
    const auto found = wanted.find(&tensor);
    if (found != wanted.end()) planned.push_back(std::move(found->second));
  }
  return planned;
}

}  // namespace safetensors::python
