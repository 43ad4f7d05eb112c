// The 22 element types of the format.
#pragma once

#include <safetensors/export.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace safetensors {
inline namespace v0 {

// The numbers are pinned for the binary interface and say nothing about order; see rank().
enum class Dtype : std::uint8_t {
  BOOL = 1,
  U8 = 2,
  I8 = 3,
  I16 = 4,
  U16 = 5,
  F16 = 6,
  BF16 = 7,
  I32 = 8,
  U32 = 9,
  F32 = 10,
  F64 = 11,
  I64 = 12,
  U64 = 13,
  C64 = 14,  // two F32: real, imaginary
  F8_E4M3 = 15,
  F8_E5M2 = 16,
  F8_E8M0 = 17,
  F8_E4M3FNUZ = 18,
  F8_E5M2FNUZ = 19,
  F6_E2M3 = 20,
  F6_E3M2 = 21,
  F4 = 22,  // E2M1
};

// A DLPack data type: code, bits of one element, lanes (https://dmlc.github.io/dlpack/latest/c_api.html, 1.1).
struct DLPackType {
  std::uint8_t code = 0;
  std::uint8_t bits = 0;
  std::uint16_t lanes = 1;
};

// All of them, lowest rank first.
[[nodiscard]] SAFETENSORS_API std::span<const Dtype> all_dtypes() noexcept;

// Bits of one element: 4, 6, 8, 16, 32 or 64.
[[nodiscard]] SAFETENSORS_API unsigned bits(Dtype dtype) noexcept;

// 0 (BOOL) to 21 (U64): the writer puts tensors of a higher rank first.
[[nodiscard]] SAFETENSORS_API unsigned rank(Dtype dtype) noexcept;

[[nodiscard]] SAFETENSORS_API DLPackType dlpack_type(Dtype dtype) noexcept;

// The name in the file, such as "F32"; "?" for a number that is no dtype.
[[nodiscard]] SAFETENSORS_API std::string_view to_string(Dtype dtype) noexcept;

// Exact and case-sensitive.
[[nodiscard]] SAFETENSORS_API std::optional<Dtype> parse_dtype(std::string_view name) noexcept;

// Which dtypes a C++ type may look at (Array::as<T>). To read F16 or BF16 as a type of your own, specialize:
//   template <> struct safetensors::ElementOf<my_half> { static constexpr bool accepts(Dtype d) { return d ==
//   Dtype::F16; } };
template <class T>
struct ElementOf;

namespace detail {
template <Dtype... Accepted>
struct ElementOfAny {
  static constexpr bool accepts(Dtype dtype) noexcept { return ((dtype == Accepted) || ...); }
};
}  // namespace detail

template <>
struct ElementOf<float> : detail::ElementOfAny<Dtype::F32> {};
template <>
struct ElementOf<double> : detail::ElementOfAny<Dtype::F64> {};
template <>
struct ElementOf<std::int8_t> : detail::ElementOfAny<Dtype::I8> {};
template <>
struct ElementOf<std::int16_t> : detail::ElementOfAny<Dtype::I16> {};
template <>
struct ElementOf<std::int32_t> : detail::ElementOfAny<Dtype::I32> {};
template <>
struct ElementOf<std::int64_t> : detail::ElementOfAny<Dtype::I64> {};
// The unsigned types also give the raw bits of the floats that C++20 has no type for, and uint8_t those of BOOL.
template <>
struct ElementOf<std::uint8_t> : detail::ElementOfAny<Dtype::U8, Dtype::BOOL, Dtype::F8_E4M3, Dtype::F8_E5M2,
                                                      Dtype::F8_E8M0, Dtype::F8_E4M3FNUZ, Dtype::F8_E5M2FNUZ> {};
template <>
struct ElementOf<std::uint16_t> : detail::ElementOfAny<Dtype::U16, Dtype::F16, Dtype::BF16> {};
template <>
struct ElementOf<std::uint32_t> : detail::ElementOfAny<Dtype::U32> {};
template <>
struct ElementOf<std::uint64_t> : detail::ElementOfAny<Dtype::U64> {};

}  // namespace v0
}  // namespace safetensors
