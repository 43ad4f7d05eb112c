// Writes the text of a header again, with other metadata. The tensors keep their order and their offsets, so the bytes
// of the data stay as they are.
#include "format/header_edit.h"

#include "base/error.h"
#include "base/utf8.h"
#include "format/header_writer.h"

namespace safetensors::format {
namespace {

Status check_utf8(std::string_view what, std::string_view key, std::string_view text) {
  const std::size_t index = base::first_invalid_utf8(text);
  if (index == std::string_view::npos) return {};
  return base::make_error(Errc::invalid_utf8, "metadata key `" + printable(key) + "`: its " + std::string(what) +
                                                  " is not UTF-8 at byte " + std::to_string(index) + " of " +
                                                  std::to_string(text.size()));
}

}  // namespace

Result<std::string> text_with_metadata(const Header& header, const std::optional<MetadataMap>& metadata) {
  HeaderWriter writer;
  if (metadata) {
    for (const auto& [key, value] : *metadata) {
      if (Status status = check_utf8("name", key, key); !status) return std::move(status).error();
      if (Status status = check_utf8("value", key, value); !status) return std::move(status).error();
    }
    writer.metadata(*metadata);
  }
  writer.tensors(header.tensors());
  return std::move(writer).finish();
}

}  // namespace safetensors::format
