// Arrays, also as DLPack tensors.
#include <algorithm>
#include <limits>

#include "c/support.h"

namespace {

// A type for one dtype, as large and as aligned as its elements. For F4 and F6: bytes.
template <safetensors::Dtype D, class Storage>
struct Element {
  Storage storage;
};
struct Complex64 {
  float real, imaginary;
};

}  // namespace

template <safetensors::Dtype D, class Storage>
struct safetensors::ElementOf<Element<D, Storage>> : safetensors::detail::ElementOfAny<D> {};

namespace {
using safetensors::Array;
using safetensors::Dtype;
using safetensors::Errc;
using safetensors::MemoryKind;
using safetensors::Result;
using safetensors::Status;
using namespace safetensors::c;

static_assert(SAFETENSORS_MEMORY_OWNED == static_cast<int>(MemoryKind::owned));
static_assert(SAFETENSORS_MEMORY_SHARED_MAP == static_cast<int>(MemoryKind::shared_map));
static_assert(SAFETENSORS_MEMORY_PRIVATE_MAP == static_cast<int>(MemoryKind::private_map));
static_assert(SAFETENSORS_MEMORY_BORROWED == static_cast<int>(MemoryKind::borrowed));

using Managed = safetensors_dl_managed_tensor;
using DlTensor = safetensors_dl_tensor;
static_assert(sizeof(void*) != 8 ||
              (sizeof(Managed) == 80 && offsetof(Managed, manager_ctx) == 8 && offsetof(Managed, deleter) == 16 &&
               offsetof(Managed, flags) == 24 && offsetof(Managed, dl_tensor) == 32));
static_assert(sizeof(void*) != 8 ||
              (sizeof(DlTensor) == 48 && offsetof(DlTensor, device) == 8 && offsetof(DlTensor, ndim) == 16 &&
               offsetof(DlTensor, dtype) == 20 && offsetof(DlTensor, shape) == 24 &&
               offsetof(DlTensor, strides) == 32 && offsetof(DlTensor, byte_offset) == 40));

constexpr std::size_t kArrayInfoSize =
    offsetof(safetensors_array_info, shape) + SAFETENSORS_INFO_DIMS * sizeof(uint64_t);

struct Elements {
  const void* data;
  std::size_t count;
};

template <Dtype D, class Storage>
Result<Elements> elements(const Array& array) {
  auto span = array.as<Element<D, Storage>>();
  if (!span) return std::move(span).error();
  return Elements{span->data(), span->size()};
}

Result<Elements> elements_as(const Array& array, Dtype dtype) {
  switch (dtype) {
    case Dtype::BOOL:
      return elements<Dtype::BOOL, uint8_t>(array);
    case Dtype::U8:
      return elements<Dtype::U8, uint8_t>(array);
    case Dtype::I8:
      return elements<Dtype::I8, int8_t>(array);
    case Dtype::I16:
      return elements<Dtype::I16, int16_t>(array);
    case Dtype::U16:
      return elements<Dtype::U16, uint16_t>(array);
    case Dtype::F16:
      return elements<Dtype::F16, uint16_t>(array);
    case Dtype::BF16:
      return elements<Dtype::BF16, uint16_t>(array);
    case Dtype::I32:
      return elements<Dtype::I32, int32_t>(array);
    case Dtype::U32:
      return elements<Dtype::U32, uint32_t>(array);
    case Dtype::F32:
      return elements<Dtype::F32, float>(array);
    case Dtype::F64:
      return elements<Dtype::F64, double>(array);
    case Dtype::I64:
      return elements<Dtype::I64, int64_t>(array);
    case Dtype::U64:
      return elements<Dtype::U64, uint64_t>(array);
    case Dtype::C64:
      return elements<Dtype::C64, Complex64>(array);
    case Dtype::F8_E4M3:
      return elements<Dtype::F8_E4M3, uint8_t>(array);
    case Dtype::F8_E5M2:
      return elements<Dtype::F8_E5M2, uint8_t>(array);
    case Dtype::F8_E8M0:
      return elements<Dtype::F8_E8M0, uint8_t>(array);
    case Dtype::F8_E4M3FNUZ:
      return elements<Dtype::F8_E4M3FNUZ, uint8_t>(array);
    case Dtype::F8_E5M2FNUZ:
      return elements<Dtype::F8_E5M2FNUZ, uint8_t>(array);
    case Dtype::F6_E2M3:
      return elements<Dtype::F6_E2M3, uint8_t>(array);
    case Dtype::F6_E3M2:
      return elements<Dtype::F6_E3M2, uint8_t>(array);
    case Dtype::F4:
      return elements<Dtype::F4, uint8_t>(array);
  }
  return invalid_argument("unknown dtype");
}

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

// Row-major strides in elements. The strides of an array without elements mean nothing, but must not overflow.
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
  constexpr auto kMostDims = static_cast<std::size_t>(std::numeric_limits<int32_t>::max());
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (shape.size() > kMostDims)
    return make_error(Errc::unsupported, "the array has " + std::to_string(shape.size()) +
                                             " dimensions, DLPack allows " + std::to_string(kMostDims));
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] > kMost)
      return make_error(Errc::unsupported, "dimension " + std::to_string(i) + " is " + std::to_string(shape[i]) +
                                               ", DLPack allows " + std::to_string(kMost));
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

void safetensors_array_free(safetensors_array* array) {
  delete array;
}

safetensors_status safetensors_array_get_info(const safetensors_array* array, safetensors_array_info* info,
                                              safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{info, "info"}}); !status) return status;
    if (Status status = check_result_struct(info, kArrayInfoSize); !status) return status;
    safetensors_array_info filled = SAFETENSORS_ARRAY_INFO_INIT;
    give_struct(filled, info);
    if (Status status = require({{array, "array"}}); !status) return status;
    const Array& from = array->array;
    filled.data = from.bytes().data();
    filled.nbytes = from.bytes().size();
    filled.dtype = static_cast<safetensors_dtype>(from.dtype());
    filled.memory = static_cast<int32_t>(from.memory());
    filled.writable = from.writable() ? 1 : 0;
    filled.rank = from.shape().rank();
    std::copy_n(from.shape().begin(), std::min<std::size_t>(filled.rank, SAFETENSORS_INFO_DIMS), filled.shape);
    give_struct(filled, info);
    return {};
  });
}

safetensors_status safetensors_array_shape(const safetensors_array* array, uint64_t* shape, size_t capacity,
                                           size_t* rank, safetensors_error* error) {
  clear(rank);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{array, "array"}, {rank, "rank"}}); !status) return status;
    return copy_out<uint64_t>(array->array.shape(), shape, capacity, rank);
  });
}

safetensors_status safetensors_array_as(const safetensors_array* array, safetensors_dtype dtype, const void** elements,
                                        size_t* count, safetensors_error* error) {
  clear(elements, count);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{array, "array"}, {elements, "elements"}, {count, "count"}}); !status) return status;
    auto known = dtype_of(dtype);
    if (!known) return std::move(known).error();
    auto result = elements_as(array->array, *known);
    if (!result) return std::move(result).error();
    *elements = result->data;
    *count = result->count;
    return {};
  });
}

safetensors_status safetensors_array_mutable_data(safetensors_array* array, void** data, size_t* nbytes,
                                                  safetensors_error* error) {
  clear(data, nbytes);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{array, "array"}, {data, "data"}, {nbytes, "nbytes"}}); !status) return status;
    auto bytes = array->array.mutable_bytes();
    if (!bytes) return std::move(bytes).error();
    *data = bytes->data();
    *nbytes = bytes->size();
    return {};
  });
}

safetensors_status safetensors_array_prefault(const safetensors_array* array, uint64_t offset, uint64_t size,
                                              safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{array, "array"}}); !status) return status;
    return array->array.prefault(offset, size);
  });
}

safetensors_status safetensors_array_release_pages(const safetensors_array* array, safetensors_error* error) {
  return guarded(error, [&]() -> Status {
    if (Status status = require({{array, "array"}}); !status) return status;
    return array->array.release();
  });
}

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
