#include "tensor_spec.h"

#include <new>
#include <string>

namespace safetensors::python {
namespace {

struct Name {
  std::string_view text;
  Dtype dtype;
  std::uint64_t packed = 1;  // elements in one of the framework's
};

constexpr Name kNames[] = {
    {"bool", Dtype::BOOL},
    {"int8", Dtype::I8},
    {"uint8", Dtype::U8},
    {"int16", Dtype::I16},
    {"uint16", Dtype::U16},
    {"int32", Dtype::I32},
    {"uint32", Dtype::U32},
    {"int64", Dtype::I64},
    {"uint64", Dtype::U64},
    {"float16", Dtype::F16},
    {"float32", Dtype::F32},
    {"float64", Dtype::F64},
    {"bfloat16", Dtype::BF16},
    {"float8_e4m3fn", Dtype::F8_E4M3},
    {"float8_e4m3fnuz", Dtype::F8_E4M3FNUZ},
    {"float8_e5m2", Dtype::F8_E5M2},
    {"float8_e5m2fnuz", Dtype::F8_E5M2FNUZ},
    {"float8_e8m0fnu", Dtype::F8_E8M0},
    {"float4_e2m1fn_x2", Dtype::F4, 2},
    {"complex64", Dtype::C64},
    {"float6_e2m3fn", Dtype::F6_E2M3},
    {"float6_e3m2fn", Dtype::F6_E3M2},
};

const Name& find_name(std::string_view dtype) {
  for (const Name& name : kNames) {
    if (name.text == dtype) return name;
  }
  std::string text = "Unknown dtype \"" + std::string(dtype) + "\". Supported dtypes: ";
  for (const Name& name : kNames) {
    if (&name != kNames) text += ", ";
    text += name.text;
  }
  raise(text);
}

std::string representation(const TensorSpec& spec) {
  std::string text = "TensorSpec(dtype='" + std::string(to_string(spec.dtype)) + "', shape=[";
  for (std::size_t i = 0; i < spec.shape.size(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(spec.shape[i]);
  }
  return text + "], data_ptr=" + std::to_string(spec.data) + ", data_len=" + std::to_string(spec.size) + ")";
}

}  // namespace

TensorSpec make_spec(std::string_view dtype, nb::handle shape, std::uintptr_t data, std::size_t size) {
  const Name& name = find_name(dtype);
  TensorSpec spec{name.dtype, {}, data, size};
  for (const nb::handle dim : nb::iter(shape)) spec.shape.push_back(to_unsigned(dim));
  if (name.packed != 1 && !spec.shape.empty()) {
    if (spec.shape.back() > ~std::uint64_t{0} / name.packed)
      raise("the last dimension of a " + std::string(dtype) + " is too large: " + std::to_string(spec.shape.back()));
    spec.shape.back() *= name.packed;
  }
  return spec;
}

void define_tensor_spec(nb::module_& module) {
  nb::class_<TensorSpec>(module, "TensorSpec",
                         "A tensor that is to be saved: what it is, and where its bytes are.\n\n"
                         "The memory at `data_ptr`, C order and little-endian, must stay alive and unchanged until\n"
                         "the function that saves it has returned.")
      .def(
          "__init__",
          [](TensorSpec* self, nb::object dtype, nb::object shape, nb::object data_ptr, nb::object data_len) {
            new (self) TensorSpec(make_spec(from_str(dtype, "dtype"), shape,
                                            static_cast<std::uintptr_t>(to_unsigned(data_ptr)),
                                            static_cast<std::size_t>(to_unsigned(data_len))));
          },
          nb::kw_only(), nb::arg("dtype").none(), nb::arg("shape").none(), nb::arg("data_ptr").none(),
          nb::arg("data_len").none(), "dtype: such as \"float32\"; shape: as the framework has it; data_len: in bytes.")
      .def_prop_ro(
          "dtype", [](const TensorSpec& spec) { return to_str(to_string(spec.dtype)); },
          "As the file has it, such as \"F32\".")
      .def_prop_ro(
          "shape", [](const TensorSpec& spec) { return to_list(spec.shape); }, "In elements, as the file has it.")
      .def_prop_ro("data_ptr", [](const TensorSpec& spec) { return spec.data; })
      .def_prop_ro(
          "data_len", [](const TensorSpec& spec) { return spec.size; }, "In bytes.")
      .def("__repr__", &representation);
}

}  // namespace safetensors::python
