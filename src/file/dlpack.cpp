// Arrays as DLPack tensors (https://dmlc.github.io/dlpack), of version 1.1 and without a version. A tensor owns its
// shape and its strides, and keeps the memory of the array alive.
#include <safetensors/to_dlpack.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "format/dtype/dtype.h"

namespace safetensors {
namespace detail {
namespace {

using Versioned = safetensors_dl_managed_tensor;
using DlTensor = safetensors_dl_tensor;
template <class Managed>
struct DLPackOwner {
  Managed tensor;
  Array array;
  std::int64_t dims[8];                       // the shape, then the strides
  std::unique_ptr<std::int64_t[]> more_dims;  // instead, if there are more than 4
};

template <class Managed>
void delete_managed(Managed* self) {
  if (self != nullptr) delete static_cast<DLPackOwner<Managed>*>(self->manager_ctx);
}

// Row-major strides in elements. The strides of an array without elements have no meaning, but their computation must
// not overflow.
void fill_dims(ShapeView from, std::int64_t* shape, std::int64_t* strides) {
  std::int64_t stride = 1;
  for (std::size_t i = from.size(); i-- > 0;) {
    shape[i] = static_cast<std::int64_t>(from[i]);
    strides[i] = stride;
    const std::int64_t dim = std::max<std::int64_t>(shape[i], 1);
    stride = stride > std::numeric_limits<std::int64_t>::max() / dim ? stride : stride * dim;
  }
}

Status check_dims(ShapeView shape) {
  constexpr auto kMaxDims = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
  constexpr auto kMaxDim = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (shape.size() > kMaxDims)
    return base::make_error(Errc::unsupported,
                            {"the array has ", shape.size(), " dimensions, DLPack allows ", kMaxDims});
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] > kMaxDim)
      return base::make_error(Errc::unsupported, {"dimension ", i, " is ", shape[i], ", DLPack allows ", kMaxDim});
  return {};
}

DlTensor tensor_of(const Array& array, std::int64_t* dims) {
  const std::size_t rank = array.shape().size();
  fill_dims(array.shape(), dims, dims + rank);
  DlTensor tensor{};
  tensor.data = array.nbytes() == 0 ? nullptr : const_cast<std::byte*>(array.bytes().data());
  tensor.device = {SAFETENSORS_DLPACK_CPU, 0};
  tensor.ndim = static_cast<std::int32_t>(rank);
  tensor.dtype = {format::dlpack_code(array.dtype()), static_cast<std::uint8_t>(bits(array.dtype())), 1};
  tensor.shape = dims;
  tensor.strides = dims + rank;
  tensor.byte_offset = 0;
  return tensor;
}

template <class Managed>
Result<std::unique_ptr<Managed, DLPackDeleter>> make_managed(const Array& array) {
  if (Status status = check_dims(array.shape()); !status) return std::move(status).error();
  auto owner = std::unique_ptr<DLPackOwner<Managed>>(new DLPackOwner<Managed>{Managed{}, array, {}, nullptr});
  const std::size_t count = 2 * array.shape().size();
  if (count > std::size(owner->dims)) owner->more_dims = std::make_unique<std::int64_t[]>(count);
  Managed& managed = owner->tensor;
  managed.dl_tensor = tensor_of(array, owner->more_dims != nullptr ? owner->more_dims.get() : owner->dims);
  managed.deleter = delete_managed<Managed>;
  managed.manager_ctx = owner.release();
  if constexpr (std::is_same_v<Managed, Versioned>) {
    managed.version = {SAFETENSORS_DLPACK_MAJOR_VERSION, SAFETENSORS_DLPACK_MINOR_VERSION};
    managed.flags = array.writable() ? 0 : SAFETENSORS_DLPACK_READ_ONLY;
  }
  return std::unique_ptr<Managed, DLPackDeleter>(&managed);
}

}  // namespace
}  // namespace detail

inline namespace v0 {

Result<DLPackTensor> to_dlpack(const Array& array) noexcept {
  return base::guarded([&] { return detail::make_managed<safetensors_dl_managed_tensor>(array); });
}

Result<UnversionedDLPackTensor> to_unversioned_dlpack(const Array& array) noexcept {
  return base::guarded([&] { return detail::make_managed<safetensors_dl_unversioned_tensor>(array); });
}

}  // namespace v0
}  // namespace safetensors
