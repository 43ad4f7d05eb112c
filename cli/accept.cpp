// Reads --accept, and reports the faults that a reader accepted.
#include "accept.h"

#include "text/text.h"

#include <safetensors/error.h>

namespace safetensors::cli {

Accept accept_of(const Arguments& given) {
  Accept accept;
  const std::optional<std::string> list = given.value("accept");
  if (!list) return accept;
  for (const std::string_view name : split(*list, ',')) {
    (name == "unknown-dtypes" ? accept.unknown_dtypes : accept.unused_bytes) = true;
    if (name != "unknown-dtypes" && name != "unused-bytes")
      throw UsageError("--accept is unknown-dtypes, unused-bytes, or both: unknown-dtypes,unused-bytes");
  }
  return accept;
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
