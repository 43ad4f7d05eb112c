// Arrays in C: their memory, and DLPack tensors of it.
#include <safetensors/to_dlpack.h>

#include "c/support.h"

namespace {
using safetensors::MemoryKind;
using safetensors::Status;
using namespace safetensors::c;

static_assert(SAFETENSORS_MEMORY_OWNED == static_cast<int>(MemoryKind::owned));
static_assert(SAFETENSORS_MEMORY_SHARED_MAP == static_cast<int>(MemoryKind::shared_map));
static_assert(SAFETENSORS_MEMORY_COPY_ON_WRITE_MAP == static_cast<int>(MemoryKind::copy_on_write_map));
static_assert(SAFETENSORS_MEMORY_BORROWED == static_cast<int>(MemoryKind::borrowed));

// make: to_dlpack() or to_unversioned_dlpack().
template <class Make, class Managed>
safetensors_status give_dlpack(Make make, const safetensors_array* array, Managed** tensor, safetensors_error* error) {
  clear(tensor);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{array, "array"}, {tensor, "tensor"}}); !status) return status;
    auto made = make(array->array);
    if (!made) return std::move(made).error();
    *tensor = made->release();
    return {};
  });
}
}  // namespace

extern "C" {

void safetensors_array_free(safetensors_array* array) {
  delete array;
}

safetensors_status safetensors_array_get_info(const safetensors_array* array, safetensors_array_info* info,
                                              safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = begin_struct(info, "info"); !status) return status;
    if (Status status = require({{array, "array"}}); !status) return status;
    const safetensors::Array& from = array->array;
    safetensors_array_info filled = SAFETENSORS_ARRAY_INFO_INIT;
    filled.data = from.bytes().data();
    filled.mutable_data = from.writable() ? const_cast<void*>(filled.data) : nullptr;
    filled.nbytes = from.bytes().size();
    filled.shape = from.shape().data();
    filled.rank = from.shape().rank();
    filled.dtype = static_cast<safetensors_dtype>(from.dtype());
    filled.memory = static_cast<std::int32_t>(from.memory());
    give_struct(filled, info);
    return {};
  });
}

safetensors_status safetensors_array_to_dlpack(const safetensors_array* array, safetensors_dl_managed_tensor** tensor,
                                               safetensors_error* error) {
  return give_dlpack(safetensors::to_dlpack, array, tensor, error);
}

safetensors_status safetensors_array_to_unversioned_dlpack(const safetensors_array* array,
                                                           safetensors_dl_unversioned_tensor** tensor,
                                                           safetensors_error* error) {
  return give_dlpack(safetensors::to_unversioned_dlpack, array, tensor, error);
}

}  // extern "C"
