// Defines TensorSpec, translates names of dtypes in frameworks, and compares the format of a buffer with a dtype.
#include "tensor_spec.h"

#include <bit>
#include <optional>
#include <string>

namespace safetensors::python {
namespace {

struct Name {
  std::string_view text;
  Dtype dtype;
  std::uint64_t packed = 1;  // elements of the format per element of the framework
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

}  // namespace

const TensorSpec& to_spec(nb::handle object, const char* argument) {
  const bool right = nb::isinstance<TensorSpec>(object);
  if (right && nb::inst_ready(object)) return *nb::inst_ptr<TensorSpec>(object);
  const std::string where = "argument '" + std::string(argument) + "': ";
  if (right) raise_type_error(where + "a TensorSpec that was never initialized");
  raise_type_error(where + "'" + name_of_type(object) + "' object is not an instance of 'TensorSpec'");
}

void check_elements(std::string_view name, Dtype dtype, const Buffer& buffer) {
  const Elements elements = elements_of(buffer);
  if (elements.bytes || elements.dtype == dtype) return;
  raise("Error while serializing: tensor `" + printable(name) + "` has dtype " + std::string(to_string(dtype)) +
        ", the data " +
        (elements.dtype ? std::string(to_string(*elements.dtype)) : "format \"" + printable(buffer.format()) + "\""));
}

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
                         "A tensor to save: its dtype, its shape and the address of its bytes.\n\n"
                         "The memory at `data_ptr`, C order and little-endian, must stay alive and unchanged until\n"
                         "the function that saves it has returned.")
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

}  // namespace safetensors::python
