// Computes sizes in integers, so that every digit is exact. A text is multiplied by its unit digit by digit, as on
// paper: so the number may have any length, and so may its fraction.
#include "base/byte_size.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <system_error>

namespace safetensors::base {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

void skip_space(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n\v\f\r"), text.size()));
}

std::string_view take_digits(std::string_view& text) {
  const auto size = static_cast<std::size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
  const std::string_view digits = text.substr(0, size);
  text.remove_prefix(size);
  return digits;
}

// Removes a unit from the front and returns its bytes. If the text begins with no unit, it returns 1.
std::uint64_t take_unit(std::string_view& text) {
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<char>(text[i] | 0x20) : '\0'; };
  const std::size_t power = std::string_view("kmgt").find(at(0)) + 1;  // npos + 1: no letter, so only bytes
  const bool binary = power != 0 && at(1) == 'i';
  const std::size_t size = (power != 0 ? 1U : 0U) + (binary ? 1U : 0U);
  if (at(size) != 'b') return 1;
  text.remove_prefix(size + 1);
  std::uint64_t bytes = 1;
  for (std::size_t i = 0; i < power; ++i) bytes *= binary ? 1024 : 1000;
  return bytes;
}

}  // namespace

std::optional<std::string> size_digits(std::string_view text) {
  skip_space(text);
  const std::string_view whole = take_digits(text);
  std::string_view fraction;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    fraction = take_digits(text);
    if (fraction.empty()) return std::nullopt;
  }
  skip_space(text);
  const std::uint64_t unit = take_unit(text);
  skip_space(text);
  if (whole.empty() || !text.empty()) return std::nullopt;

  std::uint64_t carry = 0;
  std::string digits;  // the last one first
  for (std::size_t i = fraction.size(); i-- > 0;)
    carry = (static_cast<std::uint64_t>(fraction[i] - '0') * unit + carry) / 10;
  for (std::size_t i = whole.size(); i-- > 0; carry /= 10) {
    carry += static_cast<std::uint64_t>(whole[i] - '0') * unit;
    digits += static_cast<char>('0' + carry % 10);
  }
  for (; carry != 0; carry /= 10) digits += static_cast<char>('0' + carry % 10);
  std::ranges::reverse(digits);
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return digits;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  const std::optional<std::string> digits = size_digits(text);
  std::uint64_t bytes = 0;
  if (!digits || std::from_chars(digits->data(), digits->data() + digits->size(), bytes).ec != std::errc())
    return std::nullopt;
  return bytes;
}

std::string size_text(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {" KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  unsigned shift = 10;
  std::size_t unit = 0;
  // The size in tenths of the unit. A value that would round to 1024.0 is shown in the next unit.
  const auto tenths = [&] {
    const std::uint64_t whole = bytes >> shift;
    const std::uint64_t rest = (bytes >> (shift - 10)) & 1023;
    return whole * 10 + (rest * 10 + 512) / 1024;
  };
  while (unit + 1 < std::size(kUnits) && tenths() >= 10240) {
    shift += 10;
    ++unit;
  }
  return std::to_string(tenths() / 10) + '.' + std::to_string(tenths() % 10) + kUnits[unit];
}

}  // namespace safetensors::base
