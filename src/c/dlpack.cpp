// Arrays as DLPack tensors in C.
#include <safetensors/to_dlpack.h>

#include "c/support.h"

extern "C" {

safetensors_status safetensors_array_to_dlpack(const safetensors_array* array, safetensors_dl_managed_tensor** tensor,
                                               safetensors_error* error) {
  using namespace safetensors::c;
  clear(tensor);
  return guarded(error, [&]() -> safetensors::Status {
    if (safetensors::Status status = require({{array, "array"}, {tensor, "tensor"}}); !status) return status;
    auto made = safetensors::to_dlpack(array->array);
    if (!made) return std::move(made).error();
    *tensor = made->release();
    return {};
  });
}

}  // extern "C"
