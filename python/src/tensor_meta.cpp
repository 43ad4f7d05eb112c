// Defines TensorMeta. Its repr is that of the reference.
#include "tensor_meta.h"

#include <string>

namespace safetensors::python {
namespace {

struct TensorMeta {
  Tensor tensor;
};

nb::object dtype_of(const TensorMeta& meta) {
  const File file = meta.tensor.file();
  return to_str(file.header().dtype_name(meta.tensor.info()));
}

std::string repr_of_meta(const TensorMeta& meta) {
  const TensorInfo& info = meta.tensor.info();
  std::string shape;
  for (const std::uint64_t dim : info.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(dim);
  const File file = meta.tensor.file();
  return "TensorMeta { dtype: \"" + printable(file.header().dtype_name(info)) + "\", shape: [" + shape +
         "], data_offsets: (" + std::to_string(info.begin) + ", " + std::to_string(info.end) + ") }";
}

}  // namespace

void define_tensor_meta(nb::module_& module) {
  nb::class_<TensorMeta>(module, "TensorMeta", nb::type_slots(refuse_new_slots),
                         "The entry of a tensor in the header. It stays valid after the file is closed.")
      .def_prop_ro("dtype", &dtype_of, "The dtype in the file, such as \"F32\".")
      .def_prop_ro(
          "shape", [](const TensorMeta& meta) { return to_list(meta.tensor.shape()); },
          "The shape in the file, in elements.")
      .def_prop_ro(
          "data_offsets",
          [](const TensorMeta& meta) { return nb::make_tuple(meta.tensor.info().begin, meta.tensor.info().end); },
          "(begin, end) in bytes from the start of the data.")
      .def("__repr__", &repr_of_meta);
}

nb::object make_tensor_meta(Tensor tensor) {
  return nb::cast(TensorMeta{std::move(tensor)});
}

}  // namespace safetensors::python
