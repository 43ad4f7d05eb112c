// Reads --accept, and reports the faults that a reader accepted.
#include "accept.h"

#include "text/formatted.h"

#include <safetensors/error.h>

namespace safetensors::cli {

std::optional<Accept> parse_accept(std::string_view list) {
  Accept accept;
  for (;;) {
    const std::string_view name = list.substr(0, list.find(','));
    if (name == "unknown-dtypes")
      accept.unknown_dtypes = true;
    else if (name == "unused-bytes")
      accept.unused_bytes = true;
    else
      return std::nullopt;
    if (name.size() == list.size()) return accept;
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
