// Matches a name against a shell pattern, character by character, with backtracking to the last star only.
//
// The last star is enough: it can take over all text that an earlier star would take. So the time is at most the length
// of the pattern times the length of the name, while a recursive matcher needs exponential time for hostile patterns.
#include "base/glob.h"

#include <cstddef>

namespace safetensors::base {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

// Returns the number of bytes of the first character of text. In text that is not UTF-8, a byte and the continuation
// bytes after it count as one character.
std::size_t character_size(std::string_view text) {
  std::size_t size = 1;
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) ++size;
  return size;
}

struct Set {
  std::size_t size = kNone;  // bytes of the set in the pattern, brackets included; kNone: the bracket is never closed
  bool contains = false;
};

// Reads the set at the front of pattern, which begins with `[`. As in a shell, `]` as the first member stands for
// itself, and so does `-` as the last one.
Set match_set(std::string_view pattern, std::string_view character) {
  std::size_t i = 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  const std::size_t first = i;
  bool found = false;
  while (i < pattern.size() && (pattern[i] != ']' || i == first)) {
    const std::string_view low = pattern.substr(i, character_size(pattern.substr(i)));
    i += low.size();
    std::string_view high = low;
    if (i + 1 < pattern.size() && pattern[i] == '-' && pattern[i + 1] != ']') {
      high = pattern.substr(i + 1, character_size(pattern.substr(i + 1)));
      i += 1 + high.size();
    }
    // Compares bytes: in UTF-8 the order of bytes is the order of code points.
    found = found || (low <= character && character <= high);
  }
  if (i >= pattern.size()) return {};
  return {i + 1, found != negated};
}

// Returns the number of pattern bytes that match the given character, or kNone if they do not match.
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
  std::size_t p = 0;
  std::size_t n = 0;
  // After a mismatch, the last star takes one more character: the match resumes at `star` in the pattern and at
  // `after_star` in the name.
  std::size_t star = kNone;
  std::size_t after_star = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      after_star = n;
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
    after_star += character_size(name.substr(after_star));
    n = after_star;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace safetensors::base
