/// @file
/// Gives arrays to other frameworks as DLPack tensors.
///
/// safetensors.h does not include this header. If your program also uses the header `dlpack.h` of DLPack, include that
/// one first: then the types below are its types.
#pragma once

#include <safetensors/array.h>
#include <safetensors/dlpack.h>
#include <safetensors/error.h>

#include <memory>

namespace safetensors {
inline namespace v0 {

namespace detail {
// Calls the deleter of a DLPack tensor of either kind.
struct DLPackDeleter {
  template <class Tensor>
  void operator()(Tensor* tensor) const noexcept {
    tensor->deleter(tensor);
  }
};
}  // namespace detail

/// A DLPack tensor of version 1.1. release() gives it to a consumer, which then calls its deleter.
using DLPackTensor = std::unique_ptr<safetensors_dl_managed_tensor, detail::DLPackDeleter>;
/// A DLPack tensor for consumers that only know DLPack before 1.0. It cannot say that memory is read-only.
using UnversionedDLPackTensor = std::unique_ptr<safetensors_dl_unversioned_tensor, detail::DLPackDeleter>;

/// @{
/// Returns a DLPack tensor on the CPU device that shares the memory of an array and keeps it alive.
///
/// Shape and strides (row-major, in elements) belong to the tensor. `data` is null if the array has no
/// bytes. SAFETENSORS_DLPACK_READ_ONLY is set unless the array is writable().
/// Any number of threads may call it at the same time. The deleter may run on any thread.
/// Errors: unsupported (a dimension is larger than INT64_MAX, or there are more than INT32_MAX dimensions),
/// out_of_memory.
[[nodiscard]] SAFETENSORS_API Result<DLPackTensor> to_dlpack(const Array& array) noexcept;
[[nodiscard]] SAFETENSORS_API Result<UnversionedDLPackTensor> to_unversioned_dlpack(const Array& array) noexcept;
/// @}

}  // namespace v0
}  // namespace safetensors
