// Arrays as DLPack tensors, version 1.1 (https://dmlc.github.io/dlpack). A tensor is one allocation with its shape and
// strides, and keeps the memory of the array alive.
#include <algorithm>
#include <limits>

#include "c/support.h"

namespace {
using safetensors::Array;
using safetensors::Errc;
using safetensors::Status;
using namespace safetensors::c;

using Managed = safetensors_dl_managed_tensor;
using DlTensor = safetensors_dl_tensor;
static_assert(sizeof(void*) != 8 ||
              (sizeof(Managed) == 80 && offsetof(Managed, manager_ctx) == 8 && offsetof(Managed, deleter) == 16 &&
               offsetof(Managed, flags) == 24 && offsetof(Managed, dl_tensor) == 32));
static_assert(sizeof(void*) != 8 ||
              (sizeof(DlTensor) == 48 && offsetof(DlTensor, device) == 8 && offsetof(DlTensor, ndim) == 16 &&
               offsetof(DlTensor, dtype) == 20 && offsetof(DlTensor, shape) == 24 &&
               offsetof(DlTensor, strides) == 32 && offsetof(DlTensor, byte_offset) == 40));

// One allocation holds this, then the shape, then the strides.
struct Owner {
  Managed tensor;
  Array array;
};
static_assert(sizeof(Owner) % alignof(int64_t) == 0);

void delete_managed(Managed* self) {
  if (!self) return;
  auto* owner = static_cast<Owner*>(self->manager_ctx);
  owner->~Owner();
  ::operator delete(owner);
}

// Row-major strides in elements. The strides of an array without elements have no meaning, but their computation must
// not overflow.
void fill_dims(safetensors::ShapeView from, int64_t* shape, int64_t* strides) {
  int64_t stride = 1;
  for (std::size_t i = from.size(); i-- > 0;) {
    shape[i] = static_cast<int64_t>(from[i]);
    strides[i] = stride;
    const int64_t dim = std::max<int64_t>(shape[i], 1);
    stride = stride > std::numeric_limits<int64_t>::max() / dim ? stride : stride * dim;
  }
}

Status check_dims(safetensors::ShapeView shape) {
  constexpr auto kMaxDims = static_cast<std::size_t>(std::numeric_limits<int32_t>::max());
  constexpr auto kMaxDim = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (shape.size() > kMaxDims)
    return make_error(Errc::unsupported, "the array has " + std::to_string(shape.size()) +
                                             " dimensions, DLPack allows " + std::to_string(kMaxDims));
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] > kMaxDim)
      return make_error(Errc::unsupported, "dimension " + std::to_string(i) + " is " + std::to_string(shape[i]) +
                                               ", DLPack allows " + std::to_string(kMaxDim));
  return {};
}

Managed* make_managed(const Array& array) {
  const safetensors::ShapeView shape = array.shape();
  void* memory = ::operator new(sizeof(Owner) + 2 * shape.size() * sizeof(int64_t));
  auto* dims = reinterpret_cast<int64_t*>(static_cast<std::byte*>(memory) + sizeof(Owner));
  // Only the copy of a shape with many dimensions can throw, and it runs before the Owner is made.
  Owner* owner = nullptr;
  try {
    owner = new (memory) Owner{Managed{}, array};
  } catch (...) {
    ::operator delete(memory);
    throw;
  }
  fill_dims(shape, dims, dims + shape.size());
  const safetensors::DLPackType type = safetensors::dlpack_type(array.dtype());
  Managed& managed = owner->tensor;
  managed.version = {SAFETENSORS_DLPACK_MAJOR_VERSION, SAFETENSORS_DLPACK_MINOR_VERSION};
  managed.manager_ctx = owner;
  managed.deleter = delete_managed;
  managed.flags = array.writable() ? 0 : SAFETENSORS_DLPACK_READ_ONLY;
  managed.dl_tensor.data = array.nbytes() == 0 ? nullptr : const_cast<std::byte*>(array.bytes().data());
  managed.dl_tensor.device = {SAFETENSORS_DLPACK_CPU, 0};
  managed.dl_tensor.ndim = static_cast<int32_t>(shape.size());
  managed.dl_tensor.dtype = {type.code, type.bits, type.lanes};
  managed.dl_tensor.shape = dims;
  managed.dl_tensor.strides = dims + shape.size();
  managed.dl_tensor.byte_offset = 0;
  return &managed;
}
}  // namespace

extern "C" {

safetensors_status safetensors_array_to_dlpack(const safetensors_array* array, safetensors_dl_managed_tensor** tensor,
                                               safetensors_error* error) {
  clear(tensor);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{array, "array"}, {tensor, "tensor"}}); !status) return status;
    if (Status status = check_dims(array->array.shape()); !status) return status;
    *tensor = make_managed(array->array);
    return {};
  });
}

}  // extern "C"
