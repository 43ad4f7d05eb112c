// meta set and meta rm.
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

// The pair whose key is `key`, or else the one whose key the commands show as `key` (escaped).
[[nodiscard]] std::optional<Metadata::value_type> find_metadata(const Header& header, std::string_view key);

}  // namespace safetensors::cli
