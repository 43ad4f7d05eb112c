// Runs a subcommand over several paths, one by one. Shared by ls, info, verify and clean.
#pragma once

#include "console.h"
#include "json_output.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace safetensors::cli {

// Runs `one` for each path and returns the worst of what it returns. With as_json the output is a document of this
// command with an entry for each path in "files", or what list says: `one` adds its fields to it. Otherwise json is
// nullptr.
Exit for_each_file(std::string_view command, std::span<const std::string> paths, bool as_json, Console& console,
                   const std::function<Exit(const std::string& path, Json* json)>& one,
                   std::string_view list = "files");

}  // namespace safetensors::cli
