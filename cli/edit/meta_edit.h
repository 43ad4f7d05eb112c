// The actions `meta set` and `meta rm`.
#pragma once

#include "console.h"

#include <safetensors/header.h>
#include <safetensors/writer.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

struct MetaEdit {
  EditOptions options;
  bool dry_run = false;
  bool json = false;
};

// given: "set", the file, KEY=VALUE... or "rm", the file, KEY...
[[nodiscard]] Exit run_meta_edit(const MetaEdit& edit, const std::vector<std::string>& given, Console& console);

// Finds the pair with this key, or else the pair whose escaped key, as the commands show it, is `key`.
[[nodiscard]] std::optional<Metadata::value_type> find_metadata(const Header& header, std::string_view key);

}  // namespace safetensors::cli
