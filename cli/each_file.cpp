// Opens and closes the JSON document around the paths, and keeps the highest exit code.
#include "each_file.h"

#include <optional>

namespace safetensors::cli {

Exit for_each_file(std::string_view command, std::span<const std::string> paths, bool as_json, Console& console,
                   const std::function<Exit(const std::string& path, Json* json)>& one, std::string_view list) {
  std::optional<Json> json;
  if (as_json) json.emplace(console, command).key(list).open('[');
  Exit code = Exit::good;
  for (const std::string& path : paths) {
    if (json) json->line().open('{').field("path", path);
    code = worse(code, one(path, json ? &*json : nullptr));
    if (json) json->close('}');
  }
  if (json) {
    json->close(']');
    json->finish();
  }
  return code;
}

}  // namespace safetensors::cli
