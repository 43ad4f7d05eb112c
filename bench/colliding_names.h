// Names that an unseeded hash cannot tell apart: all have one value of libstdc++'s std::hash<std::string>, all 64 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

// libstdc++'s hash takes in 8 bytes at a time, `state = (state ^ mix(bytes)) * kFactor`, and each step can be undone.
// So for any 8 bytes there are 8 others that bring the state back to where it was, and one time in 3,000 these are
// printable. Names of two such units of 16 bytes all end in the state in which they began.
class CollidingNames {
 public:
  // At least count names of 32 printable ASCII characters, none of which JSON escapes. None, with a reason in
  // missing(), where std::hash is another function.
  explicit CollidingNames(std::size_t count) {
    std::vector<std::string> units;
    for (std::uint64_t number = 0; units.size() * units.size() < count; ++number) {
      const std::string unit = unit_of(number);
      if (!unit.empty()) units.push_back(unit);
    }
    for (const std::string& first : units) {
      for (const std::string& second : units) names_.push_back(first + second);
    }
    const std::hash<std::string> hash;
    for (const std::string& name : names_) {
      if (hash(name) == hash(names_.front())) continue;
      names_.clear();
      missing_ = "std::hash<std::string> is not libstdc++'s for 64 bits";
      break;
    }
  }
  [[nodiscard]] const std::vector<std::string>& names() const& noexcept { return names_; }
  [[nodiscard]] const std::string& missing() const& noexcept { return missing_; }

 private:
  static constexpr std::uint64_t kFactor = 0xC6A4A7935BD1E995u;
  static constexpr std::uint64_t kInverse = 0x5F7A0EA7E59B19BDu;  // kFactor * kInverse == 1 in 64 bits
  static_assert(kFactor * kInverse == 1);
  static constexpr std::uint64_t kSize = 32;
  static constexpr std::uint64_t kStart = 0xC70F6907u ^ kSize * kFactor;

  static std::uint64_t fold(std::uint64_t value) { return value ^ value >> 47; }  // undoes itself
  static std::uint64_t mix(std::uint64_t bytes) { return fold(bytes * kFactor) * kFactor; }
  static std::uint64_t unmix(std::uint64_t mixed) { return fold(mixed * kInverse) * kInverse; }

  // Unit number `number`, or nothing.
  static std::string unit_of(std::uint64_t number) {
    std::uint64_t halves[2];
    char text[sizeof halves];
    for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>('a' + (number >> (4 * i) & 0xF));
    std::memcpy(halves, text, 8);
    const std::uint64_t between = (kStart ^ mix(halves[0])) * kFactor;
    halves[1] = unmix(kStart * kInverse ^ between);
    std::memcpy(text, halves, sizeof halves);
    for (const char c : std::string_view(text, sizeof text)) {
      if (c < ' ' || c > '~' || c == '"' || c == '\\') return {};
    }
    return {text, sizeof text};
  }

  std::vector<std::string> names_;
  std::string missing_;
};

}  // namespace bench
