// Runs a subcommand over several paths, one by one. Shared by ls, info and verify.
#pragma once

#include "console.h"
#include "json_output.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace safetensors::cli {

// Runs `one` for each path and returns the highest exit code.
// as_json: the output is one JSON document of this command. Its field `list` is an array with one object per path, and
// `one` adds fields to the object of its path. Without as_json, `json` is null.
Exit for_each_file(std::string_view command, std::span<const std::string> paths, bool as_json, Console& console,
                   const std::function<Exit(const std::string& path, Json* json)>& one,
                   std::string_view list = "files");

}  // namespace safetensors::cli
