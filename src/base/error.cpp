// The names of error codes, and the text of an Error.
#include <safetensors/error.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace safetensors {
inline namespace v0 {
namespace {

constexpr std::size_t kCodes = 256;  // every code is below

// The compiler puts the argument of a template into the text of the function: "... kCode = safetensors::v0::Errc::ok]".
// If no code has the number, it writes "... kCode = (safetensors::v0::Errc)7]". With another type than `auto`, GCC
// would write more.
template <Errc kCode>
constexpr auto name_of() noexcept {
  constexpr std::string_view kText = __PRETTY_FUNCTION__;
  constexpr std::size_t kBegin = kText.find_last_of(":)") + 1;
  return kText[kBegin - 1] == ')' ? "unknown" : kText.substr(kBegin, kText.size() - 1 - kBegin);
}

// A name that ends with NUL.
template <Errc kCode>
constexpr auto kName = [] {
  std::array<char, name_of<kCode>().size() + 1> name{};
  std::ranges::copy(name_of<kCode>(), name.begin());
  return name;
}();

template <std::size_t... kNumbers>
constexpr auto names_of(std::index_sequence<kNumbers...>) noexcept {
  return std::array{kName<static_cast<Errc>(kNumbers)>.data()...};
}

}  // namespace

const char* to_string(Errc code) noexcept {
  static constexpr auto kNames = names_of(std::make_index_sequence<kCodes>());
  return kNames[std::min(static_cast<std::size_t>(code), kCodes - 1)];
}

std::string Error::to_string() const {
  std::string out;
  if (!path.empty()) out = printable(path) + ": ";
  out += message;
  if (offset != kNoOffset) out += " (byte " + std::to_string(offset) + ")";
  return out;
}

}  // namespace v0
}  // namespace safetensors
