// Names of a manifest in messages.
#pragma once

#include <safetensors/error.h>

#include <string>
#include <string_view>

namespace safetensors::hash {

// Returns the name between backquotes. It is cut: a name may be as long as its manifest, and an escaped byte has six
// characters.
[[nodiscard]] inline std::string shown_name(std::string_view name) {
  constexpr std::size_t kShown = 200;
  return "`" + printable(name.substr(0, kShown)) + (name.size() > kShown ? "...`" : "`");
}

}  // namespace safetensors::hash
