// Reads the dict of tensors that a caller saves. It holds the owners of all names and bytes until the call ends.
#include "tensors_to_save.h"

#include <string>

namespace safetensors::python {

void raise_not(const char* argument, nb::handle object, const char* wanted) {
  raise_type_error("argument '" + std::string(argument) + "': '" + name_of_type(object) +
                   "' object is not an instance of '" + wanted + "'");
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
