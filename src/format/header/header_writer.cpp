// Writes a header's text in the form of the reference writer, in one pass and without a tree of values.
//
// The reference writer orders metadata keys and empty tensors at random. Here their order is fixed, so the same input
// always gives the same bytes.
#include "format/header/header_writer.h"

#include <safetensors/header.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "json/writer.h"

namespace safetensors {
namespace format {
namespace {

// Keeps the length of the header that was read if the text fits, so that offsets in the file stay the same.
std::uint64_t length_for(const Header& header, std::uint64_t text_size) {
  return text_size <= header.header_bytes() ? header.header_bytes() : padded_length(text_size, 8);
}

}  // namespace

Status check_pair(std::string_view key, std::string_view value) {
  if (Status status = base::check_utf8("metadata key", key, key); !status) return status;
  return base::check_utf8("metadata value of", key, value);
}

void HeaderWriter::pair(std::string_view key, std::string_view value) {
  separate();
  json::append_string(text_, key);
  text_ += ':';
  json::append_string(text_, value);
}

void HeaderWriter::tensor(std::string_view name, std::string_view dtype, ShapeView shape, std::uint64_t begin,
                          std::uint64_t end) {
  separate();
  json::append_string(text_, name);
  text_ += ":{\"dtype\":";
  json::append_string(text_, dtype);  // an unknown dtype may need escapes
  text_ += ",\"shape\":[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text_ += ',';
    text_ += std::to_string(shape[i]);
  }
  text_ += "],\"data_offsets\":[";
  text_ += std::to_string(begin);
  text_ += ',';
  text_ += std::to_string(end);
  text_ += "]}";
}

void HeaderWriter::tensors(const Header& header) {
  const TensorList list = header.tensors();
  const auto write = [&](const TensorInfo& info) {
    tensor(info.name, header.dtype_name(info), info.shape, info.begin, info.end);
  };
  const auto before = [](const TensorInfo* a, const TensorInfo* b) {
    return written_before(a->dtype, a->name, b->dtype, b->name);
  };
  std::vector<const TensorInfo*> empty;  // the tensors without bytes at one offset
  for (std::size_t i = 0; i < list.size();) {
    empty.clear();
    for (; i < list.size() && list[i].nbytes() == 0; ++i) {
      if (!empty.empty() && empty.back()->begin != list[i].begin) break;
      empty.push_back(&list[i]);
    }
    std::sort(empty.begin(), empty.end(), before);
    for (const TensorInfo* info : empty) write(*info);
    if (empty.empty()) write(list[i++]);
  }
}

std::string HeaderWriter::finish() && {
  text_ += '}';
  if (sink_) flush();
  return std::move(text_);
}

// Edits are merged with the old metadata as two sorted lists, because a header may have millions of pairs.
void write_text(const Header& header, HeaderWriter& writer, const MetadataEdits& edits) {
  const Metadata metadata = header.metadata();
  const bool adds = std::ranges::any_of(edits, [](const auto& edit) { return edit.second->has_value(); });
  if (metadata.present() || adds) {
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
}

Status check_writable(const Header& header) {
  const Tolerated tolerated = header.tolerated();
  if (!tolerated.any()) return {};
  return base::make_error(Errc::unsupported, "cannot write this header: its file has " + to_string(tolerated) +
                                                 ", which the format does not allow");
}

std::string header_text(const Header& header) {
  HeaderWriter writer;
  writer.reserve(static_cast<std::size_t>(header.header_bytes()));
  write_text(header, writer);
  std::string text = std::move(writer).finish();
  text.resize(static_cast<std::size_t>(length_for(header, text.size())), ' ');
  return text;
}

std::uint64_t text_length(const Header& header) {
  std::uint64_t size = 0;
  HeaderWriter writer([&](std::string_view piece) { size += piece.size(); });
  write_text(header, writer);
  std::move(writer).finish();
  return length_for(header, size);
}

Status pad_text(std::string& text, std::uint64_t alignment, std::uint64_t slack) {
  // The sum could overflow. If one part is over the limit alone, any number over the limit gives the same error.
  const bool over = text.size() > kMaxHeaderBytes || slack > kMaxHeaderBytes;
  const std::uint64_t length = padded_length(over ? kMaxHeaderBytes + 1 : text.size() + slack, alignment);
  if (length > kMaxHeaderBytes) {
    return base::make_error(Errc::header_too_large, "header too large: " + std::to_string(text.size()) +
                                                        " bytes of text, " + std::to_string(slack) +
                                                        " of slack, aligned to " + std::to_string(alignment) +
                                                        ", are over the limit of " + std::to_string(kMaxHeaderBytes));
  }
  text.resize(static_cast<std::size_t>(length), ' ');
  return {};
}

Result<std::string> edited_text(const Header& header, const MetadataEdits& edits, std::uint64_t slack) {
  if (Status status = check_writable(header); !status) return std::move(status).error();
  // An upper bound for the size of the text. A string that grows takes up to three times the memory.
  std::uint64_t size = header.header_bytes() + std::min(slack, kMaxHeaderBytes) + 32;
  for (const auto& [key, value] : edits) {
    if (!*value) continue;
    if (Status status = check_pair(key, **value); !status) return std::move(status).error();
    size += json::string_size(key) + json::string_size(**value) + 2;
  }
  HeaderWriter writer;
  writer.reserve(static_cast<std::size_t>(size));
  write_text(header, writer, edits);
  return std::move(writer).finish();
}

}  // namespace format

inline namespace v0 {

Result<std::string> Header::text() const noexcept {
  return base::guarded([&]() -> Result<std::string> {
    if (Status status = format::check_writable(*this); !status) return std::move(status).error();
    return format::header_text(*this);
  });
}

}  // namespace v0
}  // namespace safetensors
