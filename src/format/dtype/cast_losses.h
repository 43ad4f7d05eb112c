// Counts the elements that a cast cannot keep.
#pragma once

#include <safetensors/dtype.h>

#include <cstddef>
#include <cstdint>

namespace safetensors::format {

struct CastLosses {
  std::uint64_t overflow = 0;   // finite elements that are too large; infinities, if the new dtype has none
  std::uint64_t underflow = 0;  // elements that become zero, but are not zero
  std::uint64_t nan = 0;        // elements that are NaN before the cast

  CastLosses& operator+=(const CastLosses& other) noexcept {
    overflow += other.overflow, underflow += other.underflow, nan += other.nan;
    return *this;
  }
};

// Counts what cast() with the same arguments loses. castable(from, to) must be true. Integers lose nothing: a
// value that does not fit is an error of try_cast(). The memory needs no alignment.
[[nodiscard]] CastLosses count_cast_losses(Dtype from, const std::byte* in, Dtype to, std::size_t count) noexcept;

}  // namespace safetensors::format
