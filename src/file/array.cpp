// Checks that the elements of an array can be used in place, and makes slices without a copy.
#include <safetensors/array.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "file/file.h"
#include "format/slice/slice.h"
#include "os/memory.h"

namespace safetensors {
namespace file {
namespace {

std::string described(std::string_view dtype, const Shape* shape) {
  return base::concat({dtype, (shape == nullptr ? "" : " " + to_string(ShapeView(*shape)))});
}

std::string mismatch(const Array& array, std::optional<Dtype> wanted, std::size_t size, const Shape* shape) {
  const std::string elements = wanted ? std::string(to_string(*wanted))
                                      : "elements of " + std::to_string(size) + (size == 1 ? " byte" : " bytes");
  return base::concat({"expected ", described(elements, shape), ", found ",
                       described(to_string(array.dtype()), shape == nullptr ? nullptr : &array.shape())});
}

// The result of a plan may be on a device, or in memory of the caller with strides. Then the Array has no bytes.
Status check_bytes(const Array& array) {
  const std::uint64_t wanted = array.numel() / 8 * bits(array.dtype()) + array.numel() % 8 * bits(array.dtype()) / 8;
  if (wanted == array.nbytes()) return {};
  return base::make_error(Errc::buffer_size,
                          {"the array has ", array.nbytes(), " bytes, expected ", wanted, " for its shape"});
}

// A byte that is neither 0 nor 1 would be undefined behaviour in a bool.
Status check_booleans(std::span<const std::byte> bytes) {
  const auto wrong = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; });
  if (wrong == bytes.end()) return {};
  return base::make_error(Errc::dtype_mismatch,
                          {"element ", wrong - bytes.begin(), " is ", std::to_integer<int>(*wrong),
                           ", expected 0 or 1 in a BOOL that is used as bool (use std::uint8_t)"});
}

}  // namespace

Status check_contiguous(const ResolvedSlice& slice) {
  if (slice.contiguous()) return {};
  return base::make_error(Errc::slice_not_contiguous, {"the slice has ", slice.run_count(),
                                                       " runs in the tensor, expected one: read() copies any slice"});
}

std::uint64_t first_byte(const ResolvedSlice& slice) noexcept {
  return slice.nbytes() == 0 ? 0 : detail::Access<ResolvedSlice>::first(slice);
}

}  // namespace file

inline namespace v0 {

Status Array::check(const detail::ElementType& type, bool shaped, const Shape* shape) const noexcept {
  return base::guarded([&]() -> Status {
    const bool packed = bits(dtype_) % 8 != 0;  // as() shows the bytes of packed elements
    const bool whole = packed ? type.size == 1 && !shaped : bits(dtype_) == 8 * type.size;
    const bool fits = shape == nullptr || *shape == elements_.shape;
    if (!type.accepted || !whole || !fits)
      return base::make_error(type.accepted && whole ? Errc::shape_mismatch : Errc::dtype_mismatch,
                              file::mismatch(*this, type.dtype, type.size, shape));
    if (shaped) {
      if (Status status = file::check_bytes(*this); !status) return status;
    }
    const std::size_t past = reinterpret_cast<std::uintptr_t>(bytes().data()) % type.alignment;
    if (past != 0 && nbytes() != 0) {
      return base::make_error(Errc::misaligned_memory,
                              {"the file puts these bytes ", past, " past a multiple of ", type.alignment, ", where ",
                               to_string(dtype_), " cannot be read in place: use Tensor::read(), or bytes()"});
    }
    if (std::endian::native != std::endian::little && type.size > 1 && nbytes() != 0) {
      return base::make_error(Errc::unsupported,
                              {"cannot use an array of ", to_string(dtype_),
                               " in place: its bytes are little-endian, this machine is big-endian (swap bytes())"});
    }
    return type.boolean ? file::check_booleans(bytes()) : Status();
  });
}

Result<Array> Array::slice(const Slice& slice) const noexcept {
  return base::guarded([&]() -> Result<Array> {
    const Result<ResolvedSlice> part = slice.resolve(dtype_, shape());
    if (!part) return part.error();
    if (Status status = file::check_contiguous(*part); !status) return std::move(status).error();
    if (Status status = file::check_bytes(*this); !status) return std::move(status).error();
    const auto first = static_cast<std::size_t>(file::first_byte(*part));
    const Span<std::byte> bytes = elements_.span.subspan(first, static_cast<std::size_t>(part->nbytes()));
    return Array(dtype_, part->shape(), bytes, owner(), memory_);
  });
}

Status Array::release() const noexcept {
  if (memory_ == MemoryKind::shared_map) {
    os::give_up_pages(elements_.span);
    return {};
  }
  return base::guarded([&]() -> Status {
    return base::make_error(Errc::unsupported,
                            memory_ == MemoryKind::copy_on_write_map
                                ? "cannot release pages: the map is private, and changes to it would be lost"
                                : "cannot release pages: the array is not file-mapped");
  });
}

Error Array::read_only_error() noexcept {
  return base::guarded([] {
    return base::make_error(Errc::not_writable,
                            "the array is read-only: use Tensor::read() or view(Map::copy_on_write) to write to it");
  });
}

}  // namespace v0
}  // namespace safetensors
