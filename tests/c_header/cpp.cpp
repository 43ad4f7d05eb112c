// c.h in C++ beside the C++ interface, and beside a dlpack.h that was included before (its types, declared here).
#include <safetensors/safetensors.h>

#include <cstdint>

#define DLPACK_DLPACK_H_
#define DLPACK_MAJOR_VERSION 1
struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor;
struct DLManagedTensorVersioned;

#include <safetensors/c.h>

safetensors_status exchange(const safetensors_array* array, DLManagedTensorVersioned** tensor);
safetensors_status exchange(const safetensors_array* array, DLManagedTensorVersioned** tensor) {
  const safetensors_dim_slice dims[] = {SAFETENSORS_DIM_RANGE(0, 1, 1), SAFETENSORS_DIM_ELLIPSIS};
  static_cast<void>(dims);
  return safetensors_array_to_dlpack(array, tensor, nullptr);
}
