// Dtypes in C: their numbers, names and properties.
#include <vector>

#include "c/support.h"

namespace {
using safetensors::Dtype;
using safetensors::Status;
using namespace safetensors::c;

#define SAFETENSORS_SAME(name) static_assert(SAFETENSORS_DTYPE_##name == static_cast<int>(Dtype::name))
SAFETENSORS_SAME(BOOL);
SAFETENSORS_SAME(U8);
SAFETENSORS_SAME(I8);
SAFETENSORS_SAME(I16);
SAFETENSORS_SAME(U16);
SAFETENSORS_SAME(F16);
SAFETENSORS_SAME(BF16);
SAFETENSORS_SAME(I32);
SAFETENSORS_SAME(U32);
SAFETENSORS_SAME(F32);
SAFETENSORS_SAME(F64);
SAFETENSORS_SAME(I64);
SAFETENSORS_SAME(U64);
SAFETENSORS_SAME(C64);
SAFETENSORS_SAME(F8_E4M3);
SAFETENSORS_SAME(F8_E5M2);
SAFETENSORS_SAME(F8_E8M0);
SAFETENSORS_SAME(F8_E4M3FNUZ);
SAFETENSORS_SAME(F8_E5M2FNUZ);
SAFETENSORS_SAME(F6_E2M3);
SAFETENSORS_SAME(F6_E3M2);
SAFETENSORS_SAME(F4);
SAFETENSORS_SAME(UNKNOWN);
#undef SAFETENSORS_SAME
}  // namespace

extern "C" {

safetensors_status safetensors_dtype_list(safetensors_dtype* dtypes, size_t capacity, size_t* count,
                                          safetensors_error* error) {
  clear(count);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{count, "count"}}); !status) return status;
    std::vector<safetensors_dtype> all;
    for (const Dtype dtype : safetensors::all_dtypes()) all.push_back(static_cast<safetensors_dtype>(dtype));
    return copy_out<safetensors_dtype>(all, dtypes, capacity, count);
  });
}

safetensors_status safetensors_dtype_bits(safetensors_dtype dtype, uint32_t* bits, safetensors_error* error) {
  clear(bits);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{bits, "bits"}}); !status) return status;
    auto known = dtype_of(dtype);
    if (!known) return std::move(known).error();
    *bits = safetensors::bits(*known);
    return {};
  });
}

safetensors_status safetensors_dtype_rank(safetensors_dtype dtype, uint32_t* rank, safetensors_error* error) {
  clear(rank);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{rank, "rank"}}); !status) return status;
    auto known = dtype_of(dtype);
    if (!known) return std::move(known).error();
    *rank = safetensors::rank(*known);
    return {};
  });
}

safetensors_status safetensors_dtype_name(safetensors_dtype dtype, const char** name, size_t* length,
                                          safetensors_error* error) {
  clear(name, length);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{name, "name"}, {length, "length"}}); !status) return status;
    auto known = dtype_of(dtype);
    if (!known) return std::move(known).error();
    const std::string_view text = safetensors::to_string(*known);
    *name = text.data();
    *length = text.size();
    return {};
  });
}

safetensors_status safetensors_dtype_parse(const char* name, size_t length, safetensors_dtype* dtype,
                                           safetensors_error* error) {
  clear(dtype);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{dtype, "dtype"}}); !status) return status;
    auto text = text_of(name, length, "name");
    if (!text) return std::move(text).error();
    const auto known = safetensors::parse_dtype(*text);
    if (!known)
      return make_error(safetensors::Errc::unknown_dtype, "no dtype is called `" + safetensors::printable(*text) + "`");
    *dtype = static_cast<safetensors_dtype>(*known);
    return {};
  });
}

safetensors_status safetensors_dtype_dlpack(safetensors_dtype dtype, safetensors_dl_data_type* type,
                                            safetensors_error* error) {
  clear(type);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{type, "type"}}); !status) return status;
    auto known = dtype_of(dtype);
    if (!known) return std::move(known).error();
    const safetensors::DLPackType dlpack = safetensors::dlpack_type(*known);
    *type = {dlpack.code, dlpack.bits, dlpack.lanes};
    return {};
  });
}

}  // extern "C"
