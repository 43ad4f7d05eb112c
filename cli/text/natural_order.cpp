// Compares two numbers without converting them: without leading zeros the longer one is larger, and numbers of the same
// length compare like text.
#include "text/natural_order.h"

#include <cstddef>

namespace safetensors::cli {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Removes the number at the start of text and returns its digits without leading zeros.
std::string_view take_number(std::string_view& text) {
  std::size_t zeros = 0;
  while (zeros < text.size() && text[zeros] == '0') ++zeros;
  std::size_t end = zeros;
  while (end < text.size() && is_digit(text[end])) ++end;
  const std::string_view digits = text.substr(zeros, end - zeros);
  text.remove_prefix(end);
  return digits;
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) noexcept {
  const std::string_view all_a = a;
  const std::string_view all_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a[0]) && is_digit(b[0])) {
      const std::string_view x = take_number(a);
      const std::string_view y = take_number(b);
      if (x.size() != y.size()) return x.size() < y.size();
      if (const int order = x.compare(y); order != 0) return order < 0;
      continue;
    }
    if (a[0] != b[0]) return static_cast<unsigned char>(a[0]) < static_cast<unsigned char>(b[0]);
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  if (a.empty() != b.empty()) return a.empty();
  return all_a < all_b;
}

}  // namespace safetensors::cli
