// Converts integers in blocks. Each loop converts a block and combines the checks of its elements with OR, without a
// branch, so compilers turn it into vector code. Only if the combined check fails, a second loop searches for the
// element.
//
// The check is one addition and one AND. To an unsigned dtype, a value fits if no bit above the largest number is set.
// From a signed to a shorter signed dtype, the value plus half of the new range must be in the new range of unsigned
// numbers. So the loops depend only on the sizes and on how a value is extended: 22 loops instead of 64.
#include "format/dtype/cast_integers.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "format/dtype/cast_elements.h"

namespace safetensors::format {
namespace {

constexpr bool is_signed(Dtype dtype) noexcept {
  return dtype == Dtype::I8 || dtype == Dtype::I16 || dtype == Dtype::I32 || dtype == Dtype::I64;
}

// The lowest `width` bits, from 1 to 64.
constexpr std::uint64_t low_bits(unsigned width) noexcept {
  return ~std::uint64_t{0} >> (64 - width);
}

// In: signed if the sign is extended. Out: unsigned. Returns a number that is not 0 if an element does not fit.
template <class In, class Out, class Value = std::make_unsigned_t<In>>
[[gnu::always_inline]] inline Value convert_integers(Value bias, Value mask, const std::byte* __restrict in,
                                                     std::byte* __restrict out, std::size_t count) noexcept {
  Value wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Value value = load_element<Value>(in + i * sizeof(In));
    wrong = static_cast<Value>(wrong | (static_cast<Value>(value + bias) & mask));
    const Out converted = swap_if_big_endian(static_cast<Out>(static_cast<In>(value)));
    std::memcpy(out + i * sizeof converted, &converted, sizeof converted);
  }
  return wrong;
}

template <class In, class Out>
std::size_t integers_loop(const IntegerCast& cast, const std::byte* in, std::byte* out, std::size_t count) noexcept {
  using Value = std::make_unsigned_t<In>;
  const auto bias = static_cast<Value>(cast.bias);
  const auto mask = static_cast<Value>(cast.mask);
  for (std::size_t done = 0; done < count;) {
    const std::size_t now = std::min(count - done, kLoopElements);
    // The constant count lets GCC make vector code.
    const Value wrong = now == kLoopElements ? convert_integers<In, Out>(bias, mask, in, out, kLoopElements)
                                             : convert_integers<In, Out>(bias, mask, in, out, now);
    if (wrong != 0) {
      std::size_t i = 0;
      while ((static_cast<Value>(load_element<Value>(in + i * sizeof(In)) + bias) & mask) == 0) ++i;
      return done + i;
    }
    done += now;
    in += now * sizeof(In);
    out += now * sizeof(Out);
  }
  return count;
}

using IntegersLoop = std::size_t (*)(const IntegerCast& cast, const std::byte* in, std::byte* out,
                                     std::size_t count) noexcept;

// The sign matters only if the result is wider than the element.
template <class Unsigned, class Out>
IntegersLoop loop_to(bool from_signed) noexcept {
  if constexpr (sizeof(Out) > sizeof(Unsigned)) {
    if (from_signed) return integers_loop<std::make_signed_t<Unsigned>, Out>;
  }
  return integers_loop<Unsigned, Out>;
}

template <class Unsigned>
IntegersLoop loop_from(const IntegerCast& cast) noexcept {
  if (cast.to_bits == 8) return loop_to<Unsigned, std::uint8_t>(cast.from_signed);
  if (cast.to_bits == 16) return loop_to<Unsigned, std::uint16_t>(cast.from_signed);
  if (cast.to_bits == 32) return loop_to<Unsigned, std::uint32_t>(cast.from_signed);
  return loop_to<Unsigned, std::uint64_t>(cast.from_signed);
}

IntegersLoop loop_for(const IntegerCast& cast) noexcept {
  if (cast.from_bits == 8) return loop_from<std::uint8_t>(cast);
  if (cast.from_bits == 16) return loop_from<std::uint16_t>(cast);
  if (cast.from_bits == 32) return loop_from<std::uint32_t>(cast);
  return loop_from<std::uint64_t>(cast);
}

}  // namespace

bool is_integer_dtype(Dtype dtype) noexcept {
  return is_signed(dtype) || dtype == Dtype::U8 || dtype == Dtype::U16 || dtype == Dtype::U32 || dtype == Dtype::U64;
}

IntegerCast integer_cast(Dtype from, Dtype to) noexcept {
  IntegerCast cast{.from_bits = bits(from), .to_bits = bits(to), .from_signed = is_signed(from)};
  const std::uint64_t values = low_bits(cast.from_bits);
  if (is_signed(from) && is_signed(to)) {
    if (cast.to_bits >= cast.from_bits) return cast;
    cast.bias = std::uint64_t{1} << (cast.to_bits - 1);
    cast.mask = values & ~low_bits(cast.to_bits);
    return cast;
  }
  // A number fits in both dtypes if it has no bit outside of both masks.
  const std::uint64_t largest_from = low_bits(cast.from_bits - (is_signed(from) ? 1 : 0));
  const std::uint64_t largest_to = low_bits(cast.to_bits - (is_signed(to) ? 1 : 0));
  cast.mask = values & ~(largest_from & largest_to);
  return cast;
}

std::size_t cast_integers(const IntegerCast& cast, const std::byte* in, std::byte* out, std::size_t count) noexcept {
  return loop_for(cast)(cast, in, out, count);
}

}  // namespace safetensors::format
