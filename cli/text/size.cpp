// Sizes are computed in integers, so that rounding is exact for all 64 bits.
#include "text/size.h"
#include "text/formatted.h"

namespace safetensors::cli {

std::string size_text(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return formatted("{} B", bytes);
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
  return formatted("{}.{} {}", tenths() / 10, tenths() % 10, kUnits[unit]);
}

std::string grouped(std::uint64_t number) {
  std::string text = formatted("{}", number);
  for (std::size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string counted(std::uint64_t number, const char* noun) {
  return formatted("{} {}{}", grouped(number), noun, number == 1 ? "" : "s");
}

std::string share_text(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "0.0 %";
  return formatted("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

}  // namespace safetensors::cli
