// The loops of cast(). Tests can choose the instructions.
#pragma once

#include <safetensors/dtype.h>

#include <cstddef>
#include <cstdint>

namespace safetensors::format {

// The instructions that the loops may use. The results are the same, bit for bit.
enum class Instructions : std::uint8_t { portable, avx2 };

// Returns whether this build has such loops and this processor runs them.
[[nodiscard]] bool available(Instructions instructions) noexcept;

// Converts count elements as cast() does. Unlike cast(), it may set floating-point flags, and the thread's
// floating-point exceptions must be masked.
using CastKernel = void (*)(const std::byte* in, std::byte* out, std::size_t count) noexcept;

// Returns the loop from one dtype to another, or nullptr if no such loop exists. Loops exist from every float dtype to
// F32, and from F32 and F64 to every float dtype except F8_E8M0. A caller may run the loop only if instructions are
// available.
[[nodiscard]] CastKernel cast_kernel(Dtype from, Dtype to, Instructions instructions) noexcept;

// cast() with the given instructions, which must be available.
void cast_with(Instructions instructions, Dtype from, const std::byte* in, Dtype to, std::byte* out,
               std::size_t count) noexcept;

}  // namespace safetensors::format
