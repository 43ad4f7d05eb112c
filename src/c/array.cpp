// Arrays in C: their memory, and DLPack tensors of it.
#include <safetensors/to_dlpack.h>

#include "c/support.h"

namespace {
using namespace safetensors;
using namespace safetensors::c;

// make: to_dlpack() or to_unversioned_dlpack().
template <class Make, class Managed>
safetensors_status give_dlpack(Make make, const safetensors_array* array, Managed** tensor, safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    call.result(tensor, "tensor");
    call.require(array, "array");
    if (!call.ok()) return;
    auto made = make(array->array);
    if (!made) return call.fail(std::move(made).error());
    *tensor = made->release();
  });
}
}  // namespace

extern "C" {

void safetensors_array_free(safetensors_array* array) {
  delete array;
}

safetensors_status safetensors_array_get_info(const safetensors_array* array, safetensors_array_info* info,
                                              safetensors_error* error) {
  return guarded(error, [&](Call& call) {
    call.result_struct(info, "info");
    call.require(array, "array");
    if (!call.ok()) return;
    const Array& from = array->array;
    const void* const data = from.bytes().data();
    give_struct({.struct_size = 0,
                 .data = data,
                 .mutable_data = from.writable() ? const_cast<void*>(data) : nullptr,
                 .nbytes = from.bytes().size(),
                 .shape = from.shape().data(),
                 .rank = from.shape().rank(),
                 .dtype = static_cast<safetensors_dtype>(from.dtype()),
                 .memory = static_cast<std::int32_t>(from.memory())},
                info);
  });
}

safetensors_status safetensors_array_to_dlpack(const safetensors_array* array, safetensors_dl_managed_tensor** tensor,
                                               safetensors_error* error) {
  return give_dlpack(to_dlpack, array, tensor, error);
}

safetensors_status safetensors_array_to_unversioned_dlpack(const safetensors_array* array,
                                                           safetensors_dl_unversioned_tensor** tensor,
                                                           safetensors_error* error) {
  return give_dlpack(to_unversioned_dlpack, array, tensor, error);
}

}  // extern "C"
