// Reads --accept, and reports the faults that a reader accepted.
#include "accept.h"

#include "text/text.h"

#include <safetensors/error.h>

namespace safetensors::cli {

std::optional<std::string> take_accept(const std::optional<std::string>& given, Accept& accept) {
  if (!given) return std::nullopt;
  for (std::string_view list = *given;;) {
    const std::string_view name = list.substr(0, list.find(','));
    if (name == "unknown-dtypes")
      accept.unknown_dtypes = true;
    else if (name == "unused-bytes")
      accept.unused_bytes = true;
    else
      return "--accept is unknown-dtypes, unused-bytes, or both: unknown-dtypes,unused-bytes";
    if (name.size() == list.size()) return std::nullopt;
    list.remove_prefix(name.size() + 1);
  }
}

void notice_tolerated(const Header& header, const std::string& path, Console& console) {
  const Tolerated tolerated = header.tolerated();
  if (!tolerated.any()) return;
  console.message(
      formatted("{}: notice: accepted {}, which the format forbids", printable(path), to_string(tolerated)));
}

void json_tolerated(Json& json, const Header& header) {
  const Tolerated tolerated = header.tolerated();
  if (!tolerated.any()) return;
  json.key("tolerated").open('{').field("unknown_dtypes", tolerated.unknown_dtypes);
  json.field("unused_bytes", tolerated.unused_bytes).close('}');
}

}  // namespace safetensors::cli
