// Turns an index of Python into a Slice. An index is parsed into items (integer, range, ellipsis), the ellipsis is
// expanded, and bounds are checked in the order of the reference, whose error texts programs match.
#include "reader.h"

#include <algorithm>
#include <limits>
#include <string>

namespace safetensors::python {
namespace {

constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();

struct Item {
  enum class Kind { index, range, ellipsis };
  Kind kind = Kind::range;
  std::int64_t index = 0;
  std::optional<std::int64_t> begin = std::nullopt, end = std::nullopt;
  std::int64_t step = 1;
};

std::vector<nb::object> items_of(nb::handle index) {
  std::vector<nb::object> items;
  if (!PyTuple_Check(index.ptr())) return items.push_back(nb::borrow(index)), items;
  for (const nb::handle item : nb::iter(index)) items.push_back(nb::borrow(item));
  return items;
}

// The treatment of bounds over 64 bits. torch clamps them like all bounds past the end. For NumPy they raise the error
// of the reference.
enum class Huge { clamped, error };

// Raises TypeError for an object that is not an integer.
std::int64_t to_bound(nb::handle object, Huge huge) {
  const nb::object number = own(PyNumber_Index(object.ptr()));
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow < 0) return kLowest;
  if (overflow > 0 && huge == Huge::error) {
    PyErr_SetString(PyExc_OverflowError, "int too big to convert");
    throw nb::python_error();
  }
  return overflow > 0 ? kHighest : value;
}

std::optional<std::int64_t> to_optional_bound(nb::handle object, Huge huge) {
  if (object.is_none()) return std::nullopt;
  return to_bound(object, huge);
}

Item to_range(nb::handle slice, Huge huge) {
  Item item;
  item.begin = to_optional_bound(slice.attr("start"), huge);
  item.end = to_optional_bound(slice.attr("stop"), huge);
  item.step = to_optional_bound(slice.attr("step"), huge).value_or(1);
  return item;
}

// nullopt unless the object is an integer of at most 64 bits.
std::optional<std::int64_t> to_index(nb::handle object) {
  if (PyIndex_Check(object.ptr()) == 0) return std::nullopt;
  const nb::object number = nb::steal(PyNumber_Index(object.ptr()));
  if (!number.is_valid()) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error();
    PyErr_Clear();
    return std::nullopt;
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0) return std::nullopt;
  return value;
}

Item to_integer(nb::handle object, std::size_t position) {
  const std::optional<std::int64_t> index = to_index(object);
  if (!index)
    raise("Unsupported slice index at position " + std::to_string(position) + ": expected slice, int, or ellipsis");
  return {.kind = Item::Kind::index, .index = *index};
}

Item to_item(nb::handle object, std::size_t position) {
  if (PySlice_Check(object.ptr())) {
    Item item = to_range(object, Huge::error);
    if (item.step == 0) raise("Slice step must not be zero");
    return item;
  }
  if (object.ptr() == Py_Ellipsis) return {.kind = Item::Kind::ellipsis};
  return to_integer(object, position);
}

bool is_ellipsis(const Item& item) {
  return item.kind == Item::Kind::ellipsis;
}

// Replaces the ellipsis by full ranges.
std::vector<Item> expand(const std::vector<Item>& items, std::size_t rank) {
  std::vector<Item> expanded;
  for (const Item& item : items) {
    if (item.kind != Item::Kind::ellipsis) {
      expanded.push_back(item);
      continue;
    }
    for (std::size_t i = items.size() - 1; i < rank; ++i) expanded.push_back({});
  }
  return expanded;
}

std::string show(const std::vector<Item>& items) {
  std::string text = "[";
  for (const Item& item : items) {
    if (text.size() > 1) text += ", ";
    if (item.kind == Item::Kind::index) {
      text += std::to_string(item.index);
      continue;
    }
    text += item.begin ? std::to_string(*item.begin) : "";
    text += ":" + (item.end ? std::to_string(*item.end) : std::string());
    if (item.step != 1) text += ":" + std::to_string(item.step);
  }
  return text + "]";
}

// Dimensions over 2^63 - 1 occur in tensors without elements only. They are clamped.
std::int64_t signed_size(std::uint64_t dim) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(dim, static_cast<std::uint64_t>(kHighest)));
}

// Makes a negative bound count from the start. A bound before the start becomes 0.
void count_from_start(std::optional<std::int64_t>& bound, std::int64_t size) {
  if (bound && *bound < 0) bound = *bound < -size ? 0 : *bound + size;
}

// The index that an error names, if the item is past the end.
std::optional<std::int64_t> beyond(const Item& item, std::int64_t size) {
  if (item.kind == Item::Kind::index) return item.index >= size ? std::optional(item.index) : std::nullopt;
  const bool past = item.end && *item.end > size;
  const std::int64_t begin = item.begin.value_or(0);
  if (begin > size || (past && begin == size)) return begin;
  if (past) return *item.end - 1;
  return std::nullopt;
}

// Raises the errors of the reference, in its order: negative integers first. An item without a dimension is checked
// against size 0.
void check(std::vector<Item> items, ShapeView shape) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::uint64_t dim = i < shape.size() ? shape[i] : 0;
    const std::int64_t size = signed_size(dim);
    Item& item = items[i];
    count_from_start(item.begin, size);
    count_from_start(item.end, size);
    if (item.kind != Item::Kind::index || item.index >= 0) continue;
    if (item.index < -size)
      raise("Invalid index " + std::to_string(item.index) + " for dimension " + std::to_string(i) + " of size " +
            std::to_string(dim));
    item.index += size;
  }
  if (items.size() > shape.size())
    raise("Error during slicing " + show(items) + " with shape " + to_string(shape) +
          ": more slicing indexes than dimensions in tensor");
  for (std::size_t i = items.size(); i-- > 0;) {
    const std::optional<std::int64_t> index = beyond(items[i], signed_size(shape[i]));
    if (!index) continue;
    raise("Error during slicing " + show(items) + " with shape " + to_string(shape) + ": index " +
          std::to_string(*index) + " out of bounds for tensor dimension #" + std::to_string(i) + " of size " +
          std::to_string(shape[i]));
  }
}

// Returns whether there are too many items, or an integer is past the end of its dimension.
bool out_of_range(const std::vector<Item>& items, ShapeView shape) {
  if (items.size() > shape.size()) return true;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::int64_t size = signed_size(shape[i]);
    if (items[i].kind == Item::Kind::index && (items[i].index < -size || items[i].index >= size)) return true;
  }
  return false;
}

// Returns whether only torch accepts the object as an index: booleans, None, lists, masks, arrays and tensors with a
// dimension.
bool is_torch_only(nb::handle object) {
  if (object.is_none() || PyBool_Check(object.ptr())) return true;
  if (PyLong_Check(object.ptr())) return false;
  if (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr()) || PyRange_Check(object.ptr())) return true;
  if (!nb::hasattr(object, "dtype") || !nb::hasattr(object, "ndim")) return false;
  if (to_unsigned(nb::object(object.attr("ndim"))) != 0 || PyIndex_Check(object.ptr()) == 0) return true;
  const nb::object dtype = own(PyObject_Str(nb::object(object.attr("dtype")).ptr()));
  return from_str(dtype, "index").ends_with("bool");
}

DimSlice to_dim(const Item& item) {
  if (item.kind == Item::Kind::index) return DimSlice::at(item.index);
  return DimSlice::range(item.begin, item.end, item.step);
}

Slice to_slice(const std::vector<Item>& items) {
  std::vector<DimSlice> dims;
  for (const Item& item : items) dims.push_back(to_dim(item));
  return Slice(std::move(dims));
}

}  // namespace

Slice parse_index(nb::handle index, ShapeView shape) {
  std::vector<Item> items;
  if (PyList_Check(index.ptr())) {
    if (PyList_Size(index.ptr()) != 0) raise("Non empty lists are not implemented");
    items.push_back({.begin = 0, .end = 0});
  } else {
    const std::vector<nb::object> objects = items_of(index);
    for (std::size_t i = 0; i < objects.size(); ++i) items.push_back(to_item(objects[i], i));
  }
  if (std::count_if(items.begin(), items.end(), is_ellipsis) > 1)
    raise("Only one ellipsis (...) is allowed in slice index");
  items = expand(items, shape.size());
  check(items, shape);
  return to_slice(items);
}

void refuse_meta_index(nb::handle index) {
  for (const nb::object& object : items_of(index)) {
    if (object.is_none() || PyLong_Check(object.ptr()) || PySlice_Check(object.ptr()) || PyList_Check(object.ptr()) ||
        object.ptr() == Py_Ellipsis || !nb::hasattr(object, "is_meta"))
      continue;
    if (PyObject_IsTrue(object.attr("is_meta").ptr()) == 1)
      raise(
          "a slice cannot be taken by an index tensor on the meta device, which has no values: make it with "
          "device=\"cpu\"");
  }
}

std::optional<TorchIndex> parse_torch_index(nb::handle index, ShapeView shape, bool reference) {
  std::vector<Item> items;
  nb::list axes;
  bool plain = true;  // only integers and slices of integers
  bool new_axes = false;
  for (const nb::object& object : items_of(index)) {
    const bool checked = reference && !new_axes;  // torch decides about an index with None
    if (object.is_none()) {
      new_axes = true;
      axes.append(object);
    } else if (object.ptr() == Py_Ellipsis) {
      items.push_back({.kind = Item::Kind::ellipsis});
      axes.append(object);
    } else if (PySlice_Check(object.ptr())) {
      for (const char* const part : {"start", "stop", "step"}) {
        const nb::object bound = object.attr(part);
        plain = plain && (bound.is_none() || PyLong_Check(bound.ptr()));
      }
      if (!plain && !checked) return std::nullopt;
      items.push_back(to_range(object, Huge::clamped));
      if (items.back().step <= 0) return std::nullopt;
      axes.append(nb::slice(nb::none(), nb::none(), nb::none()));
    } else {
      const bool integer = PyLong_Check(object.ptr()) && !PyBool_Check(object.ptr());
      if (!integer && (!checked || is_torch_only(object))) return std::nullopt;
      plain = plain && integer;
      if (!checked && !to_index(object)) return std::nullopt;
      items.push_back(to_integer(object, items.size()));
    }
  }
  if (std::count_if(items.begin(), items.end(), is_ellipsis) > 1) return std::nullopt;
  items = expand(items, shape.size());
  const bool outside = out_of_range(items, shape);
  if (outside && reference && !new_axes) check(items, shape);
  if (outside || !plain) return std::nullopt;
  return TorchIndex{to_slice(items), new_axes, nb::tuple(axes)};
}

}  // namespace safetensors::python
