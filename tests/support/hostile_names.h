// Names whose hashes collide, so lookups are slow. They are for two hashes: an earlier hash of this project, which had
// a weakness, and the current hash with a key that the attacker knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace hostile {

// Returns a name whose hash was 0 for every seed of the first hash of this project. The first 8 bytes are
// 18 * 0xA0761D6478BD642F. In a product of that hash, they cancelled both the length and the seed. number: below 10^10.
inline std::string name_that_cancels_a_seed(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  return "\x4E\x0B\x51\x7D\x10\x11\x4E\x48" + std::string(10 - digits.size(), '0') + digits;
}
inline std::vector<std::string> names_that_cancel_a_seed(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(name_that_cancels_a_seed(i));
  return names;
}

// Returns the name as the text between the quotes of a JSON string.
inline std::string in_json(std::string_view name) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < ' ')
      text += std::string("\\u00") + kDigits[c >> 4] + kDigits[c & 0xF];
    else
      text += c;
  }
  return text;
}

// Returns the names that an attacker chooses who knows the key. All hashes have the same upper 10 bits.
inline std::vector<std::string> names_solved_for(const safetensors::base::HashKey& key, std::size_t count) {
  std::vector<std::string> names;
  for (std::uint64_t i = 0; names.size() < count; ++i) {
    const std::string name = "layer." + std::to_string(i) + ".weight";
    if (safetensors::base::hash(name, key) >> 22 == 77) names.push_back(name);
  }
  return names;
}

}  // namespace hostile
