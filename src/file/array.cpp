// Checks that the elements of an array can be used in place, and controls the pages of file-mapped arrays.
#include <safetensors/array.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"
#include "os/memory.h"

namespace safetensors {
inline namespace v0 {

Status Array::check_element(bool accepted, std::size_t alignment, std::size_t size) const noexcept {
  return base::guarded([&]() -> Status {
    const unsigned wide = bits(dtype_);
    const bool fits = wide % 8 == 0 ? size * 8 == wide : size == 1;
    if (!accepted || !fits) {
      return base::make_error(Errc::dtype_mismatch, "an array of " + std::string(to_string(dtype_)) +
                                                        " cannot be looked at as elements of the type asked for (" +
                                                        std::to_string(size) + " bytes)");
    }
    const std::size_t past = reinterpret_cast<std::uintptr_t>(data_) % alignment;
    if (past != 0 && size_ != 0) {
      return base::make_error(Errc::misaligned_memory, "the file puts these bytes " + std::to_string(past) +
                                                           " past a multiple of " + std::to_string(alignment) +
                                                           ", where " + std::string(to_string(dtype_)) +
                                                           " cannot be read in place: use Tensor::read(), or bytes()");
    }
    if (std::endian::native != std::endian::little && size > 1 && size_ != 0) {
      return base::make_error(Errc::unsupported,
                              "an array of " + std::string(to_string(dtype_)) +
                                  " cannot be looked at as elements: its bytes are little-endian, this machine is "
                                  "big-endian (swap bytes())");
    }
    return {};
  });
}

Status Array::prefault(std::uint64_t offset, std::uint64_t size) const noexcept {
  if (memory_ != MemoryKind::shared_map && memory_ != MemoryKind::private_map) return {};
  if (offset >= size_) return {};
  return os::populate({data_ + offset, static_cast<std::size_t>(std::min<std::uint64_t>(size, size_ - offset))});
}

Status Array::release() const noexcept {
  if (memory_ == MemoryKind::shared_map) {
    os::give_up_pages({data_, size_});
    return {};
  }
  return base::guarded([&]() -> Status {
    if (memory_ == MemoryKind::private_map)
      return base::make_error(Errc::unsupported,
                              "cannot release pages: the map is private, and changes to it would be lost");
    return base::make_error(Errc::unsupported, "cannot release pages: the array is not file-mapped");
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
