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

// Returns whether there are loops from one dtype to another, or both are F32. Loops exist from every float of at least
// 8 bits to F32, and from F32 to each of these except F8_E8M0.
[[nodiscard]] bool castable_floats(Dtype from, Dtype to) noexcept;

// cast() with the given instructions, which must be available.
void cast_with(Instructions instructions, Dtype from, const std::byte* in, Dtype to, std::byte* out,
               std::size_t count) noexcept;

}  // namespace safetensors::format
