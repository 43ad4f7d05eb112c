// Defines TensorSpec, and reads the dict of tensors that a caller saves. It holds the owners of all names and bytes
// until the call ends.
#include <bit>
#include <optional>
#include <string>

#include "framework.h"
#include "module.h"
#include "saving.h"

namespace safetensors::python {
namespace {

std::string repr_of_spec(const TensorSpec& spec) {
  std::string text = "TensorSpec(dtype='" + std::string(to_string(spec.dtype)) + "', shape=[";
  for (std::size_t i = 0; i < spec.shape.size(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(spec.shape[i]);
  }
  return text + "], data_ptr=" + std::to_string(spec.data) + ", data_len=" + std::to_string(spec.size) + ")";
}

// The type of a buffer's elements. Neither is set for a type that no dtype matches.
struct Elements {
  bool bytes = false;  // plain bytes, which may hold any dtype
  std::optional<Dtype> dtype = std::nullopt;
};

Elements elements_of(const Buffer& buffer) {
  constexpr Dtype kSigned[] = {Dtype::I8, Dtype::I16, Dtype::I32, Dtype::I64};
  constexpr Dtype kUnsigned[] = {Dtype::U8, Dtype::U16, Dtype::U32, Dtype::U64};
  std::string_view format = buffer.format();
  const bool swapped = format.starts_with('>') || format.starts_with('!');
  if (!format.empty() && std::string_view("@=<>!").find(format.front()) != std::string_view::npos)
    format.remove_prefix(1);
  if (format == "B" || format == "b" || format == "c") return {.bytes = true};
  if (swapped || !std::has_single_bit(buffer.itemsize()) || buffer.itemsize() > 8) return {};
  const auto width = static_cast<std::size_t>(std::countr_zero(buffer.itemsize()));
  if (format == "?") return {.dtype = Dtype::BOOL};
  if (format == "e") return {.dtype = Dtype::F16};
  if (format == "f") return {.dtype = Dtype::F32};
  if (format == "d") return {.dtype = Dtype::F64};
  if (format == "Zf") return {.dtype = Dtype::C64};
  if (format.size() != 1) return {};
  if (std::string_view("hilqn").find(format) != std::string_view::npos) return {.dtype = kSigned[width]};
  if (std::string_view("HILQN").find(format) != std::string_view::npos) return {.dtype = kUnsigned[width]};
  return {};
}

// Raises SafetensorError unless the buffer holds plain bytes or elements of the dtype. name: of the tensor, for the
// error.
void check_elements(std::string_view name, Dtype dtype, const Buffer& buffer) {
  const Elements elements = elements_of(buffer);
  if (elements.bytes || elements.dtype == dtype) return;
  raise("Error while serializing: tensor `" + printable(name) + "` has dtype " + std::string(to_string(dtype)) +
        ", the data " +
        (elements.dtype ? std::string(to_string(*elements.dtype)) : "format \"" + printable(buffer.format()) + "\""));
}

// dtype: a name in frameworks, such as "float32". Raises SafetensorError for an unknown name, OverflowError for a
// dimension that is negative or too large.
TensorSpec make_spec(std::string_view dtype, nb::handle shape, std::uintptr_t data, std::size_t size) {
  const FrameworkDtype& known = framework_dtype(dtype);
  TensorSpec spec{known.dtype, {}, data, size};
  for (const nb::handle dim : nb::iter(shape)) spec.shape.push_back(to_unsigned(dim));
  if (known.packed != 1 && !spec.shape.empty()) {
    if (spec.shape.back() > ~std::uint64_t{0} / known.packed)
      raise("the last dimension of a " + std::string(dtype) + " is too large: " + std::to_string(spec.shape.back()));
    spec.shape.back() *= known.packed;
  }
  return spec;
}

}  // namespace

const TensorSpec& to_spec(nb::handle object, const char* argument) {
  const bool right = nb::isinstance<TensorSpec>(object);
  if (right && nb::inst_ready(object)) return *nb::inst_ptr<TensorSpec>(object);
  if (!right) raise_not(argument, object, "TensorSpec");
  raise_type_error("argument '" + std::string(argument) + "': a TensorSpec that was never initialized");
}

void define_tensor_spec(nb::module_& module) {
  nb::class_<TensorSpec>(module, "TensorSpec",
                         "TensorSpec(*, dtype, shape, data_ptr, data_len)\n--\n\n"
                         "A tensor to save: its dtype, its shape and the address of its bytes.\n\n"
                         "The memory at `data_ptr` (C order, little-endian) must not change until the save returns.")
      .def(
          "__init__",
          [](nb::pointer_and_handle<TensorSpec> self, nb::object dtype, nb::object shape, nb::object data_ptr,
             nb::object data_len) {
            const auto address = static_cast<std::uintptr_t>(to_unsigned(data_ptr));
            const auto size = static_cast<std::size_t>(to_unsigned(data_len));
            initialize(self, make_spec(from_str(dtype, "dtype"), shape, address, size));
          },
          nb::kw_only(), nb::arg("dtype").none(), nb::arg("shape").none(), nb::arg("data_ptr").none(),
          nb::arg("data_len").none(), "dtype: such as \"float32\". shape: as in the framework. data_len: in bytes.")
      .def_prop_ro(
          "dtype", [](const TensorSpec& spec) { return to_str(to_string(spec.dtype)); },
          "The dtype in the file, such as \"F32\".")
      .def_prop_ro(
          "shape", [](const TensorSpec& spec) { return to_list(spec.shape); }, "The shape in the file, in elements.")
      .def_prop_ro("data_ptr", [](const TensorSpec& spec) { return spec.data; })
      .def_prop_ro(
          "data_len", [](const TensorSpec& spec) { return spec.size; }, "In bytes.")
      .def("__repr__", &repr_of_spec);
}

TensorsToSave::TensorsToSave(nb::handle dict) {
  if (!PyDict_Check(dict.ptr())) raise_not("tensor_dict", dict, "dict");
  items_ = dict_items(dict);
  data_.reserve(items_.size());
  specs_.reserve(items_.size());
  for (const auto& [name, value] : items_) {
    check_signals(data_.size());
    add(from_str(name, "tensor_dict"), value);
  }
}

void TensorsToSave::add(std::string_view name, nb::handle value) {
  const TensorSpec* spec = nullptr;
  if (PyDict_Check(value.ptr())) {
    specs_.push_back(from_dict(name, value));
    spec = &specs_.back();
  } else {
    spec = &to_spec(value, "tensor_dict");
  }
  if (spec->data == 0 && spec->size != 0)
    raise(std::string(kSaving) + "tensor `" + printable(name) + "` has " + std::to_string(spec->size) +
          " bytes at a null data_ptr");
  const auto* const bytes = reinterpret_cast<const std::byte*>(spec->data);
  data_.push_back({name, spec->dtype, spec->shape, {bytes, spec->size}});
}

// value: {"dtype", "shape", "data": buffer}, the form of releases before 0.8. Works on a copy: the `__eq__` of its
// keys and the `__index__` of its dimensions run here and may change the dict.
TensorSpec TensorsToSave::from_dict(std::string_view name, nb::handle value) {
  const nb::object copy = own(PyDict_Copy(value.ptr()));
  const nb::object data = find_item(copy, "data");
  if (!data.is_valid()) raise_not("tensor_dict", value, "TensorSpec");
  const nb::object dtype = find_item(copy, "dtype");
  const nb::object shape = find_item(copy, "shape");
  if (!dtype.is_valid()) raise(std::string(kSaving) + "missing `dtype`");
  if (!shape.is_valid()) raise(std::string(kSaving) + "missing `shape`");
  buffers_.emplace_back(data, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT);
  const Buffer& buffer = buffers_.back();
  const auto address = reinterpret_cast<std::uintptr_t>(buffer.bytes().data());
  TensorSpec spec = make_spec(from_str(dtype, "dtype"), shape, address, buffer.bytes().size());
  check_elements(name, spec.dtype, buffer);
  return spec;
}

}  // namespace safetensors::python
