// Adds the missing B of a unit, and groups the digits of a number by three from its end.
#include "text/size.h"
#include "text/formatted.h"

namespace safetensors::cli {

std::optional<std::uint64_t> parse_size(std::string_view text) {
  const std::string_view number = text.substr(0, text.find_last_not_of("KMGTkmgti") + 1);
  const std::string_view unit = text.substr(number.size());
  const bool without_b = unit.size() == 1 ? unit != "i" : unit.size() == 2 && unit[0] != 'i' && unit[1] == 'i';
  return base::parse_size(without_b ? std::string(text) + "B" : std::string(text));
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
