#include "base/glob.h"

#include <cstddef>

namespace safetensors::base {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

// Bytes of the character at the front of text, which is valid UTF-8 or counted byte by byte.
std::size_t character_size(std::string_view text) {
  std::size_t size = 1;
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) ++size;
  return size;
}

// Compares characters by their bytes: in UTF-8 that is the order of code points.
bool in_range(std::string_view character, std::string_view low, std::string_view high) {
  return low <= character && character <= high;
}

struct Set {
  std::size_t size = kNone;  // of the pattern's text, brackets included; kNone: no set
  bool contains = false;
};

// A set at the front of pattern, which begins with [.
Set match_set(std::string_view pattern, std::string_view character) {
  std::size_t at = 1;
  const bool negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (negated) ++at;
  const std::size_t first = at;
  bool found = false;
  while (at < pattern.size() && (pattern[at] != ']' || at == first)) {
    const std::string_view low = pattern.substr(at, character_size(pattern.substr(at)));
    at += low.size();
    std::string_view high = low;
    if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']') {
      high = pattern.substr(at + 1, character_size(pattern.substr(at + 1)));
      at += 1 + high.size();
    }
    found = found || in_range(character, low, high);
  }
  if (at >= pattern.size()) return {};
  return {at + 1, found != negated};
}

// How much of pattern matches the one character at the front of name; kNone: it does not.
std::size_t match_one(std::string_view pattern, std::string_view character) {
  if (pattern.empty()) return kNone;
  if (pattern[0] == '?') return 1;
  if (pattern[0] == '[') {
    const Set set = match_set(pattern, character);
    if (set.size != kNone) return set.contains ? set.size : kNone;
  }
  const std::size_t escape = pattern[0] == '\\' && pattern.size() > 1 ? 1 : 0;
  return pattern.substr(escape).starts_with(character) ? escape + character.size() : kNone;
}

}  // namespace

bool is_glob(std::string_view text) noexcept {
  return text.find_first_of("*?[") != kNone;
}

bool glob_match(std::string_view pattern, std::string_view name) noexcept {
  // Where to go on after a mismatch: one character further behind the last star. Time: pattern x name.
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = kNone;
  std::size_t behind_star = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      behind_star = n;
      continue;
    }
    const std::string_view character = name.substr(n, character_size(name.substr(n)));
    if (const std::size_t matched = match_one(pattern.substr(p), character); matched != kNone) {
      p += matched;
      n += character.size();
      continue;
    }
    if (star == kNone) return false;
    p = star;
    behind_star += character_size(name.substr(behind_star));
    n = behind_star;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace safetensors::base
