#include "format/header_edit.h"

#include <string_view>

namespace safetensors::format {
namespace {

constexpr std::uint64_t kMostHeaderBytes = 100'000'000;

void strip_padding(std::string& text) {
  text.resize(text.find_last_not_of(' ') + 1);
}

// `"__metadata__":{...}`, or nothing.
Result<std::string> metadata_member(HeaderBuilder& builder) {
  const Result<Header> header = builder.build();
  if (!header) return header.error();
  Result<std::string> text = header->text();
  if (!text) return text;
  strip_padding(*text);
  return text->substr(1, text->size() - 2);
}

Result<std::string> old_member(const Metadata& metadata) {
  HeaderBuilder builder;
  if (metadata.present()) builder.metadata_present();
  for (const auto& [key, value] : metadata) {
    if (Status status = builder.metadata(key, value); !status) return std::move(status).error();
  }
  return metadata_member(builder);
}

Result<std::string> new_member(const std::optional<MetadataMap>& metadata) {
  HeaderBuilder builder;
  if (!metadata) return std::string();
  builder.metadata_present();
  for (const auto& [key, value] : *metadata) {
    if (Status status = builder.metadata(key, value); !status) return std::move(status).error();
  }
  return metadata_member(builder);
}

}  // namespace

Result<std::string> text_with_metadata(const Header& header, const std::optional<MetadataMap>& metadata) {
  const Result<std::string> before = old_member(header.metadata());
  if (!before) return before;
  const Result<std::string> after = new_member(metadata);
  if (!after) return after;
  Result<std::string> text = header.text();
  if (!text) return text;
  strip_padding(*text);
  // The text is `{METADATA,TENSORS}`, and either may be missing.
  std::string_view tensors = std::string_view(*text).substr(1 + before->size());
  if (!before->empty() && tensors.front() == ',') tensors.remove_prefix(1);
  std::string result;
  result.reserve(after->size() + tensors.size() + 16);
  result.append("{").append(*after);
  if (!after->empty() && tensors != "}") result.append(",");
  result.append(tensors);
  return result;
}

Status pad_header_text(std::string& text, std::uint64_t slack) {
  const std::uint64_t length = text.size();
  const bool fits = length <= kMostHeaderBytes && slack <= kMostHeaderBytes - length;
  const std::uint64_t padded = fits ? (length + slack + 7) / 8 * 8 : 0;
  if (fits && padded <= kMostHeaderBytes) {
    text.resize(padded, ' ');
    return {};
  }
  Error error;
  error.code = Errc::header_too_large;
  error.message = "header too large: " + std::to_string(length) + " bytes and " + std::to_string(slack) +
                  " of slack, the format allows " + std::to_string(kMostHeaderBytes);
  return error;
}

}  // namespace safetensors::format
