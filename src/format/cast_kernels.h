// Loops that turn elements: all that cast() is made of.
#pragma once

#include <safetensors/dtype.h>

#include <cstddef>
#include <cstdint>

namespace safetensors::format {

// What of the processor the loops may use; what comes out is the same, bit for bit.
enum class Instructions : std::uint8_t { portable, avx2 };

// Whether this build has such loops and this processor runs them.
[[nodiscard]] bool available(Instructions instructions) noexcept;

// As cast(), for count elements, but the thread's floating-point exceptions must be masked and its flags may be set.
using CastKernel = void (*)(const std::byte* in, std::byte* out, std::size_t count) noexcept;

// From every float to F32, and from F32 and F64 to every one but F8_E8M0; else nullptr. instructions must be available
// when it is called.
[[nodiscard]] CastKernel cast_kernel(Dtype from, Dtype to, Instructions instructions) noexcept;

// cast() with the loops named, which must be available.
void cast_with(Instructions instructions, Dtype from, const std::byte* in, Dtype to, std::byte* out,
               std::size_t count) noexcept;

}  // namespace safetensors::format
