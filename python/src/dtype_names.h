// The names of dtypes in frameworks. After the library has a new dtype, the package needs one more row in
// dtype_names.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "support.h"

namespace safetensors::python {

// The way in which torch takes the bytes of a dtype.
enum class TorchImport : std::uint8_t {
  none,         // torch lacks the dtype
  reinterpret,  // as bytes, which are then reinterpreted: DLPack or an older torch lacks the dtype
  direct,       // as a DLPack tensor of the dtype, in every torch
};

struct FrameworkDtype {
  Dtype dtype;
  const char* name;   // in ml_dtypes and torch, and in TensorSpec; NumPy has it under the same name, too
  const char* numpy;  // format of NumPy; null if only ml_dtypes has the dtype; packed elements are bytes
  TorchImport torch;
  std::uint64_t packed = 1;  // elements of the format per element of the framework
};

// A Dtype, as a number, is smaller than this.
inline constexpr std::size_t kDtypeNumbers = 23;

[[nodiscard]] const FrameworkDtype& framework_dtype(Dtype dtype) noexcept;
// name: of FrameworkDtype. Raises SafetensorError, which lists all names.
[[nodiscard]] const FrameworkDtype& framework_dtype(std::string_view name);

void define_dtype_names(nb::module_& module);

}  // namespace safetensors::python
