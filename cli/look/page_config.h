// The file config.json that lies beside a model, for the page of inspect.
#pragma once

#include <cstdint>
#include <string>

namespace safetensors::cli {

inline constexpr std::uint64_t kMaxShownConfig = 64 << 10;  // bytes

struct ShownConfig {
  std::uint64_t bytes = 0;  // of the file; 0: there is none, or it cannot be read
  std::string text;         // at most kMaxShownConfig bytes of it, not escaped
};

// Returns the path of config.json in the folder of the file `path`. Empty if `path` is.
[[nodiscard]] std::string config_path(const std::string& path);

// Reads config.json in the folder of the file `path`. Ignores errors, because a page needs no configuration.
[[nodiscard]] ShownConfig read_shown_config(const std::string& path);

}  // namespace safetensors::cli
