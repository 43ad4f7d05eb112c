// c.h in C++, together with the C++ interface and with a dlpack.h that was included before. This file declares the
// types of that dlpack.h.
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
struct DLManagedTensor;
struct DLManagedTensorVersioned;

#include <safetensors/c.h>

safetensors_status exchange(const safetensors_array* array, DLManagedTensorVersioned** tensor);
safetensors_status exchange(const safetensors_array* array, DLManagedTensorVersioned** tensor) {
  const safetensors_dim dims[] = {SAFETENSORS_DIM_RANGE(0, 1, 1), SAFETENSORS_DIM_ELLIPSIS};
  const safetensors_read_options options = SAFETENSORS_READ_OPTIONS_INIT;
  const safetensors_write_options write = SAFETENSORS_WRITE_OPTIONS_INIT;
  static_cast<void>(dims), static_cast<void>(options), static_cast<void>(write);
  return safetensors_array_to_dlpack(array, tensor, nullptr);
}
