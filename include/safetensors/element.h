/// @file
/// Says which dtypes each C++ type accepts, and converts single elements of small floats to `float`.
///
/// Thread-safety: any number of threads may call the functions of this header at the same time.
#pragma once

#include <safetensors/dtype.h>
#include <safetensors/export.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#if __has_include(<stdfloat>) && __cplusplus > 202002L
#include <stdfloat>  // std::float16_t and std::bfloat16_t
#endif
#if defined(__FLT16_MAX__) && (defined(__clang__) || __GNUC__ >= 13)
#define SAFETENSORS_HAS_FLOAT16 1
#endif

namespace safetensors {
inline namespace v0 {

namespace detail {
// True for std::complex<float> and for types with the same functions real() and imag(). It needs no header of these
// types.
template <class T, class = void>
inline constexpr bool kIsComplexFloat = false;
template <class T>
inline constexpr bool
    kIsComplexFloat<T, std::void_t<decltype(std::declval<const T&>().real() + std::declval<const T&>().imag())>> =
        std::is_same_v<std::decay_t<decltype(std::declval<const T&>().real())>, float>&&
            std::is_same_v<std::decay_t<decltype(std::declval<const T&>().imag())>, float> &&
        sizeof(T) == 8 && std::is_trivially_copyable_v<T>;

// Returns the dtype with which elements of T are saved. Returns nullopt for char, which may be I8 or U8, and for types
// that cannot be elements.
template <class T>
constexpr std::optional<Dtype> element_dtype() noexcept {
#if defined(__STDCPP_BFLOAT16_T__)
  if (std::is_same_v<T, std::bfloat16_t>) return Dtype::BF16;
#endif
#if defined(__STDCPP_FLOAT16_T__)
  if (std::is_same_v<T, std::float16_t>) return Dtype::F16;
#endif
#if defined(SAFETENSORS_HAS_FLOAT16)
  if (std::is_same_v<T, _Float16>) return Dtype::F16;
#endif
#if defined(__cpp_char8_t)
  if (std::is_same_v<T, char8_t>) return std::nullopt;
#endif
  if (std::is_same_v<T, char> || std::is_same_v<T, wchar_t> || std::is_same_v<T, char16_t> ||
      std::is_same_v<T, char32_t>)
    return std::nullopt;
  if (std::is_same_v<T, bool>) return Dtype::BOOL;
  if (std::is_same_v<T, std::byte>) return Dtype::U8;
  if (std::is_same_v<T, float>) return Dtype::F32;
  if (std::is_same_v<T, double>) return Dtype::F64;
  if (kIsComplexFloat<T>) return Dtype::C64;
  if (!std::is_integral_v<T> || sizeof(T) > 8) return std::nullopt;
  constexpr Dtype kSigned[] = {Dtype::I8, Dtype::I16, Dtype::I32, Dtype::I64};
  constexpr Dtype kUnsigned[] = {Dtype::U8, Dtype::U16, Dtype::U32, Dtype::U64};
  const std::size_t index = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  return std::is_signed_v<T> ? kSigned[index] : kUnsigned[index];
}
}  // namespace detail

/// Says which dtypes the C++ type T accepts. Array::as<T>() returns elements of these dtypes only.
///
/// - `float`: F32
/// - `double`: F64
/// - `std::int8_t`: I8
/// - `std::int16_t`: I16
/// - `std::int32_t`: I32
/// - `std::int64_t`: I64
/// - `std::uint8_t`: U8, and the bits of BOOL and of the 8-bit floats
/// - `std::uint16_t`: U16, and the bits of F16 and BF16
/// - `std::uint32_t`: U32
/// - `std::uint64_t`: U64
/// - `bool`: BOOL; every byte must be 0 or 1
/// - `char`: I8 and U8
/// - `std::byte`: the bits of U8, I8, BOOL and the 8-bit floats
/// - `std::complex<float>`: C64
/// - `_Float16`: F16; the compiler must have this type
/// - `std::float16_t`: F16; the compiler must have this type
/// - `std::bfloat16_t`: BF16; the compiler must have this type
///
/// `long`, `long long` and other integer types accept the same dtypes as the type in this list that has the same size
/// and sign.
///
/// For a type of your own, specialize this template. All functions need the member accepts(). Only NamedTensor and
/// Tensor::read_as() also need the member `dtype`:
/// @code
/// template <>
/// struct safetensors::ElementOf<my_half> {
///   static constexpr Dtype dtype = Dtype::F16;
///   static constexpr bool accepts(Dtype dtype) { return dtype == Dtype::F16; }
/// };
/// @endcode
template <class T>
struct ElementOf {
  static_assert(std::is_same_v<T, char> || detail::element_dtype<T>(),
                "no dtype has elements of this type: use float, double, bool, char, std::byte, an integer type of 8 to "
                "64 bits, std::complex<float>, _Float16 or std::bfloat16_t, or specialize safetensors::ElementOf");
  /// Returns true when T accepts elements of `dtype`.
  static constexpr bool accepts(Dtype dtype) noexcept {
    constexpr std::optional<Dtype> kOwn = detail::element_dtype<T>();
    if (kOwn == Dtype::U8 && (dtype == Dtype::BOOL || (dtype >= Dtype::F8_E4M3 && dtype <= Dtype::F8_E5M2FNUZ)))
      return true;
    if (kOwn == Dtype::U16 && (dtype == Dtype::F16 || dtype == Dtype::BF16)) return true;
    if (std::is_same_v<T, std::byte> && dtype == Dtype::I8) return true;
    return std::is_same_v<T, char> ? dtype == Dtype::I8 || dtype == Dtype::U8 : kOwn == dtype;
  }
};

namespace detail {
// ElementOf<T>::dtype if that member exists. Otherwise element_dtype<T>().
template <class T, class = void>
inline constexpr std::optional<Dtype> kOwnDtype = element_dtype<T>();
template <class T>
inline constexpr std::optional<Dtype> kOwnDtype<T, std::void_t<decltype(ElementOf<T>::dtype)>> = ElementOf<T>::dtype;

// Returns the dtype with which elements of T are saved, and to which Tensor::read_as<T>() casts.
template <class T>
constexpr Dtype dtype_of() noexcept {
  static_assert(ElementOf<T>::accepts(kOwnDtype<T>.value_or(Dtype::F4)),
                "elements of this type have no dtype of their own: use std::int8_t or std::uint8_t for char, and give "
                "ElementOf<T> a member `dtype` for a type of your own");
  return *kOwnDtype<T>;
}

// What the library's own sources know of a C++ type.
struct ElementType {
  bool accepted;  // the type accepts the dtype of the elements
  bool boolean;   // the type is bool
  std::size_t alignment, size;
  std::optional<Dtype> dtype;  // kOwnDtype
};
template <class T>
constexpr ElementType element_type(Dtype dtype) noexcept {
  return {ElementOf<T>::accepts(dtype), std::is_same_v<T, bool>, alignof(T), sizeof(T), kOwnDtype<T>};
}
}  // namespace detail

/// Returns the value of one element of F16, BF16, or an F8, F6 or F4 dtype. The element is in the lowest bits of
/// `bits`. The higher bits are ignored. For every other dtype, the result is NaN.
///
/// To convert many elements, read them with a cast: see Tensor::read_as() and ReadPlan::add().
[[nodiscard]] SAFETENSORS_API float to_float(Dtype dtype, std::uint16_t bits) noexcept;

}  // namespace v0
}  // namespace safetensors
