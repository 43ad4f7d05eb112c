/// @file
/// The 22 element types of the format, and the type of tensors whose dtype is unknown.
///
/// Thread-safety: any number of threads may call the functions of this header at the same time.
#pragma once

#include <safetensors/export.h>
#include <safetensors/span.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace safetensors {
inline namespace v0 {

/// Element types. The numbers never change, because the binary interface uses them. They do not define an order: see
/// all_dtypes().
enum class Dtype : std::uint8_t {
  BOOL = 1,          ///< one byte per element: 0 or 1
  U8 = 2,            ///< unsigned integer, 8 bits
  I8 = 3,            ///< signed integer, 8 bits
  I16 = 4,           ///< signed integer, 16 bits
  U16 = 5,           ///< unsigned integer, 16 bits
  F16 = 6,           ///< IEEE 754 half precision, 16 bits
  BF16 = 7,          ///< bfloat16: 8 bits of exponent, 7 of mantissa
  I32 = 8,           ///< signed integer, 32 bits
  U32 = 9,           ///< unsigned integer, 32 bits
  F32 = 10,          ///< IEEE 754 single precision, 32 bits
  F64 = 11,          ///< IEEE 754 double precision, 64 bits
  I64 = 12,          ///< signed integer, 64 bits
  U64 = 13,          ///< unsigned integer, 64 bits
  C64 = 14,          ///< complex, 64 bits: two F32, real and imaginary
  F8_E4M3 = 15,      ///< 8 bits: 4 of exponent, 3 of mantissa; no infinity
  F8_E5M2 = 16,      ///< 8 bits: 5 of exponent, 2 of mantissa
  F8_E8M0 = 17,      ///< 8 bits of exponent: a power of two
  F8_E4M3FNUZ = 18,  ///< 8 bits: 4 of exponent (other bias), 3 of mantissa; no infinity, no negative zero
  F8_E5M2FNUZ = 19,  ///< 8 bits: 5 of exponent (other bias), 2 of mantissa; no infinity, no negative zero
  F6_E2M3 = 20,      ///< 6 bits: 2 of exponent, 3 of mantissa; packed
  F6_E3M2 = 21,      ///< 6 bits: 3 of exponent, 2 of mantissa; packed
  F4 = 22,           ///< 4 bits (E2M1): 2 of exponent, 1 of mantissa; packed
  /// Not a dtype of the format: the tensor has a dtype that this library does not know. Only a reader with
  /// Accept::unknown_dtypes returns it. Header::dtype_name() has the text of the file. The library reads such a tensor
  /// as bytes. It neither slices, casts nor writes it.
  UNKNOWN = 255,
};

/// Returns the 22 dtypes of the format, from BOOL to U64. In a file that this library writes, tensors of a later dtype
/// come first. The memory is static.
[[nodiscard]] SAFETENSORS_API Span<const Dtype> all_dtypes() noexcept;

/// Returns the bits of one element: 4, 6, 8, 16, 32 or 64. Returns 8 for Dtype::UNKNOWN, which is read as bytes.
[[nodiscard]] SAFETENSORS_API unsigned bits(Dtype dtype) noexcept;

/// Returns the name of a dtype in the file, such as "F32". Returns "unknown" for Dtype::UNKNOWN, and "?" for a number
/// that is no Dtype. The memory is static.
[[nodiscard]] SAFETENSORS_API std::string_view to_string(Dtype dtype) noexcept;

/// Finds the dtype with this name. Upper and lower case differ. Returns nullopt for any other text.
[[nodiscard]] SAFETENSORS_API std::optional<Dtype> parse_dtype(std::string_view name) noexcept;

}  // namespace v0
}  // namespace safetensors
