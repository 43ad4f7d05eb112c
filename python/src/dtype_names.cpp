// The table of dtypes in frameworks. C++ and the package take all names from here. The names of the format and the bits
// of an element come from the library.
#include "dtype_names.h"

#include <array>
#include <iterator>

#include "format/dtype/cast.h"

namespace safetensors::python {
namespace {

// Errors list the names in this order.
constexpr FrameworkDtype kDtypes[] = {
    {Dtype::BOOL, "bool", "?", TorchImport::reinterpret},
    {Dtype::I8, "int8", "i1", TorchImport::direct},
    {Dtype::U8, "uint8", "u1", TorchImport::direct},
    {Dtype::I16, "int16", "<i2", TorchImport::direct},
    {Dtype::U16, "uint16", "<u2", TorchImport::reinterpret},
    {Dtype::I32, "int32", "<i4", TorchImport::direct},
    {Dtype::U32, "uint32", "<u4", TorchImport::reinterpret},
    {Dtype::I64, "int64", "<i8", TorchImport::direct},
    {Dtype::U64, "uint64", "<u8", TorchImport::reinterpret},
    {Dtype::F16, "float16", "<f2", TorchImport::direct},
    {Dtype::F32, "float32", "<f4", TorchImport::direct},
    {Dtype::F64, "float64", "<f8", TorchImport::direct},
    {Dtype::BF16, "bfloat16", nullptr, TorchImport::direct},
    {Dtype::F8_E4M3, "float8_e4m3fn", nullptr, TorchImport::reinterpret},
    {Dtype::F8_E4M3FNUZ, "float8_e4m3fnuz", nullptr, TorchImport::reinterpret},
    {Dtype::F8_E5M2, "float8_e5m2", nullptr, TorchImport::reinterpret},
    {Dtype::F8_E5M2FNUZ, "float8_e5m2fnuz", nullptr, TorchImport::reinterpret},
    {Dtype::F8_E8M0, "float8_e8m0fnu", nullptr, TorchImport::reinterpret},
    {Dtype::F4, "float4_e2m1fn_x2", "u1", TorchImport::reinterpret, 2},
    {Dtype::C64, "complex64", "<c8", TorchImport::direct},
    {Dtype::F6_E2M3, "float6_e2m3fn", "u1", TorchImport::none},
    {Dtype::F6_E3M2, "float6_e3m2fn", "u1", TorchImport::none},
};

// Index: the number of a dtype. Value: its index in kDtypes.
constexpr std::array<std::uint8_t, kDtypeNumbers> kByNumber = [] {
  std::array<std::uint8_t, kDtypeNumbers> indices{};
  for (std::size_t i = 0; i < std::size(kDtypes); ++i)
    indices[static_cast<std::size_t>(kDtypes[i].dtype)] = static_cast<std::uint8_t>(i);
  return indices;
}();
static_assert([] {
  for (std::size_t number = 1; number < kDtypeNumbers; ++number)
    if (static_cast<std::size_t>(kDtypes[kByNumber[number]].dtype) != number) return false;
  return std::size(kDtypes) == kDtypeNumbers - 1;
}());

nb::list dtypes() {
  nb::list list;
  for (const Dtype dtype : all_dtypes())
    list.append(nb::make_tuple(to_str(to_string(dtype)), to_str(framework_dtype(dtype).name), bits(dtype),
                               format::castable(dtype, Dtype::F32), format::castable(Dtype::F32, dtype),
                               format::castable(dtype, Dtype::I64)));
  return list;
}

}  // namespace

const FrameworkDtype& framework_dtype(Dtype dtype) noexcept {
  return kDtypes[kByNumber[static_cast<std::size_t>(dtype)]];
}

const FrameworkDtype& framework_dtype(std::string_view name) {
  for (const FrameworkDtype& dtype : kDtypes) {
    if (dtype.name == name) return dtype;
  }
  std::string text = "Unknown dtype \"" + std::string(name) + "\". Supported dtypes: ";
  for (const FrameworkDtype& dtype : kDtypes) {
    if (&dtype != kDtypes) text += ", ";
    text += dtype.name;
  }
  raise(text);
}

void define_dtype_names(nb::module_& module) {
  module.def(
      "_dtypes", &dtypes,
      "(name in the format, name in frameworks, bits of an element, whether other floats can be made of it, whether\n"
      "it can be made of other floats) of every dtype.");
}

}  // namespace safetensors::python
