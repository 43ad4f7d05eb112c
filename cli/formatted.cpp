// The only file that compiles fmt: its header takes seconds to compile.
#define FMT_HEADER_ONLY
#include "formatted.h"

#include <fmt/format.h>

namespace safetensors::cli {

std::string vformatted(fmt::string_view text, fmt::format_args values) {
  return fmt::vformat(text, values);
}

}  // namespace safetensors::cli
