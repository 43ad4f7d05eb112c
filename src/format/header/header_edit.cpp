// Writes the text of a header again, with other metadata. The tensors keep their order and their offsets, so the bytes
// of the data stay as they are. Edits are merged with the old metadata as two sorted lists, because a header may have
// millions of pairs.
#include "format/header/header_edit.h"

#include <algorithm>
#include <cstddef>

#include "format/header/header_writer.h"
#include "json/writer.h"

namespace safetensors::format {
namespace {

// Returns an upper bound for the size of the text, in bytes. A string that grows takes up to three times the memory.
std::size_t max_text_size(const Header& header, const MetadataEdits& edits, std::uint64_t slack) {
  std::size_t size = static_cast<std::size_t>(header.header_bytes()) + std::string_view("\"__metadata__\":{},").size();
  for (const auto& [key, value] : edits) {
    if (*value) size += json::string_size(key) + json::string_size(**value) + std::string_view(":,").size();
  }
  return size + static_cast<std::size_t>(std::min(slack, kMaxHeaderBytes)) + 8;
}

}  // namespace

Result<std::string> edited_text(const Header& header, const MetadataEdits& edits, std::uint64_t slack) {
  if (Status status = check_writable(header); !status) return std::move(status).error();
  const Metadata metadata = header.metadata();
  bool present = metadata.present();
  for (const auto& [key, value] : edits) {
    if (!*value) continue;
    if (Status status = check_pair(key, **value); !status) return std::move(status).error();
    present = true;
  }
  HeaderWriter writer;
  writer.reserve(max_text_size(header, edits, slack));
  if (present) {
    writer.begin_metadata();
    auto edit = edits.begin();
    const auto write_edits = [&](const auto& before) {
      for (; edit != edits.end() && before(edit->first); ++edit) {
        if (*edit->second) writer.pair(edit->first, **edit->second);
      }
    };
    for (const auto& [name, value] : metadata) {
      const std::string_view key = name;
      write_edits([&](std::string_view other) { return other < key; });
      if (edit == edits.end() || edit->first != key) writer.pair(key, value);
    }
    write_edits([](std::string_view) { return true; });
    writer.end_metadata();
  }
  writer.tensors(header);
  return std::move(writer).finish();
}

}  // namespace safetensors::format
