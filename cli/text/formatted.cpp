// Compiles fmt::vformat() once for the whole command. No other file includes <fmt/format.h>.
#define FMT_HEADER_ONLY
#include "text/text.h"

#include <fmt/format.h>

namespace safetensors::cli {

std::string vformatted(fmt::string_view text, fmt::format_args values) {
  return fmt::vformat(text, values);
}

}  // namespace safetensors::cli
