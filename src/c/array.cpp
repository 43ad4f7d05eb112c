// Arrays in C: their bytes, their elements by dtype, and their pages. See dlpack.cpp for DLPack.

#include "c/support.h"

#include <algorithm>

namespace {

// A type with the size and alignment of a dtype's elements. For F4 and F6, whose elements do not fill whole bytes, it
// is a byte.
template <safetensors::Dtype D, class Storage>
struct Element {
  Storage storage;
};
struct Complex64 {
  float real, imaginary;
};

}  // namespace

template <safetensors::Dtype D, class Storage>
struct safetensors::ElementOf<Element<D, Storage>> {
  static constexpr Dtype dtype = D;
  static constexpr bool accepts(Dtype given) noexcept { return given == D; }
};

namespace {
using safetensors::Array;
using safetensors::Dtype;
using safetensors::MemoryKind;
using safetensors::Result;
using safetensors::Status;
using namespace safetensors::c;

static_assert(SAFETENSORS_MEMORY_OWNED == static_cast<int>(MemoryKind::owned));
static_assert(SAFETENSORS_MEMORY_SHARED_MAP == static_cast<int>(MemoryKind::shared_map));
static_assert(SAFETENSORS_MEMORY_COPY_ON_WRITE_MAP == static_cast<int>(MemoryKind::copy_on_write_map));
static_assert(SAFETENSORS_MEMORY_BORROWED == static_cast<int>(MemoryKind::borrowed));

constexpr std::size_t kArrayInfoSize =
    offsetof(safetensors_array_info, shape) + SAFETENSORS_INFO_DIMS * sizeof(uint64_t);

template <Dtype D, class Storage>
Result<Elements> elements(const Array& array) {
  auto span = array.as<Element<D, Storage>>();
  if (!span) return std::move(span).error();
  return Elements{span->data(), span->size()};
}

}  // namespace

namespace safetensors::c {

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
    case Dtype::UNKNOWN:  // an array of bytes has the dtype U8
      break;
  }
  return invalid_argument("unknown dtype");
}

}  // namespace safetensors::c

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
    filled.dims = from.shape().data();
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

}  // extern "C"
