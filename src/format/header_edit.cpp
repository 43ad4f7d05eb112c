// Writes the text of a header again, with other metadata. The tensors keep their order and their offsets, so the bytes
// of the data stay as they are.
#include "format/header_edit.h"

#include "format/header_writer.h"
#include "format/printable.h"

namespace safetensors::format {

Result<std::string> text_with_metadata(const Header& header, const std::optional<MetadataMap>& metadata) {
  HeaderWriter writer;
  if (metadata) {
    for (const auto& [key, value] : *metadata) {
      if (Status status = check_utf8("metadata key", key, key); !status) return std::move(status).error();
      if (Status status = check_utf8("metadata value of", key, value); !status) return std::move(status).error();
    }
    writer.metadata(*metadata);
  }
  writer.tensors(header.tensors());
  return std::move(writer).finish();
}

}  // namespace safetensors::format
