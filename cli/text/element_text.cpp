// Formats elements as text. Floats become double, which holds all values of the smaller dtypes exactly, and then text
// by std::to_chars. Python, JavaScript and jq read JSON numbers as doubles, so they get exactly the value in the file.
#include "text/element_text.h"

#include <safetensors/element.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

namespace safetensors::cli {
namespace {

bool is_small_float(Dtype dtype) {
  switch (dtype) {
    case Dtype::F16:
    case Dtype::BF16:
    case Dtype::F8_E5M2:
    case Dtype::F8_E4M3:
    case Dtype::F8_E8M0:
    case Dtype::F8_E4M3FNUZ:
    case Dtype::F8_E5M2FNUZ:
    case Dtype::F6_E2M3:
    case Dtype::F6_E3M2:
    case Dtype::F4:
      return true;
    default:
      return false;
  }
}

// Returns the shortest decimal that reads back as this double: "1.0", "1e-07". A finite value has a point or an
// exponent, so that no reader takes it for an integer.
std::string shortest(double value) {
  if (std::isnan(value)) return "nan";
  char text[64];
  const auto [end, code] = std::to_chars(text, text + sizeof text, value);
  std::string result(text, end);
  if (result.find_first_of(".en") == std::string::npos) result += ".0";
  return result;
}

template <class Integer>
Integer load(std::span<const std::byte> packed, std::uint64_t index) {
  const auto element = packed.subspan(static_cast<std::size_t>(index) * sizeof(Integer));
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) value |= std::to_integer<std::uint64_t>(element[i]) << (8 * i);
  return static_cast<Integer>(value);
}

// Loads an element of 4, 6, 8 or 16 bits.
std::uint32_t load_bits(std::span<const std::byte> packed, std::uint64_t index, unsigned bits) {
  const std::uint64_t first = index * bits;
  const std::size_t byte = static_cast<std::size_t>(first / 8);
  std::uint32_t value = std::to_integer<std::uint32_t>(packed[byte]);
  if (first % 8 + bits > 8) value |= std::to_integer<std::uint32_t>(packed[byte + 1]) << 8;
  return value >> (first % 8) & ((1u << bits) - 1);
}

template <class Integer>
void append_integer(std::string& out, std::span<const std::byte> packed, std::uint64_t index) {
  char text[std::numeric_limits<Integer>::digits10 + 2];
  out.append(text, std::to_chars(text, std::end(text), load<Integer>(packed, index)).ptr);
}

void append_text(std::string& out, const std::string& text, bool json) {
  const bool quoted = json && text.find_first_of("ni") != std::string::npos;
  if (quoted) out += '"';
  out += text;
  if (quoted) out += '"';
}

}  // namespace

ElementText::ElementText(Dtype dtype, bool json) : dtype_(dtype), json_(json) {
  if (is_small_float(dtype)) texts_.resize(std::size_t{1} << bits(dtype));
}

const std::string& ElementText::small_float(std::uint32_t code) {
  std::string& text = texts_[code];
  if (text.empty()) text = shortest(static_cast<double>(to_float(dtype_, static_cast<std::uint16_t>(code))));
  return text;
}

void ElementText::append_float(std::string& out, float value) const {
  append_text(out, shortest(static_cast<double>(value)), json_);
}

void ElementText::append(std::string& out, std::span<const std::byte> packed, std::uint64_t index) {
  switch (dtype_) {
    case Dtype::BOOL: {
      const auto value = load<std::uint8_t>(packed, index);
      out += value == 0 ? "false" : value == 1 || json_ ? "true" : std::to_string(value);
      return;
    }
    case Dtype::U8:
      return append_integer<std::uint8_t>(out, packed, index);
    case Dtype::I8:
      return append_integer<std::int8_t>(out, packed, index);
    case Dtype::U16:
      return append_integer<std::uint16_t>(out, packed, index);
    case Dtype::I16:
      return append_integer<std::int16_t>(out, packed, index);
    case Dtype::U32:
      return append_integer<std::uint32_t>(out, packed, index);
    case Dtype::I32:
      return append_integer<std::int32_t>(out, packed, index);
    case Dtype::U64:
      return append_integer<std::uint64_t>(out, packed, index);
    case Dtype::I64:
      return append_integer<std::int64_t>(out, packed, index);
    case Dtype::F32:
      return append_float(out, std::bit_cast<float>(load<std::uint32_t>(packed, index)));
    case Dtype::F64:
      return append_text(out, shortest(std::bit_cast<double>(load<std::uint64_t>(packed, index))), json_);
    case Dtype::C64: {
      const float real = std::bit_cast<float>(load<std::uint32_t>(packed, 2 * index));
      const float imaginary = std::bit_cast<float>(load<std::uint32_t>(packed, 2 * index + 1));
      if (json_) out += '[';
      append_float(out, real);
      out += json_ ? ", " : std::signbit(imaginary) && !std::isnan(imaginary) ? "" : "+";
      append_float(out, imaginary);
      out += json_ ? ']' : 'j';
      return;
    }
    default:
      return append_text(out, small_float(load_bits(packed, index, bits(dtype_))), json_);
  }
}

}  // namespace safetensors::cli
