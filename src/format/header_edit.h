// The text of a header with other metadata: its tensors keep their order and their offsets.
#pragma once

#include <safetensors/error.h>
#include <safetensors/header.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace safetensors::format {

using MetadataMap = std::map<std::string, std::string>;

// As the writer writes it, without padding. nullopt: no __metadata__. Errors: invalid_utf8, header_too_large.
[[nodiscard]] Result<std::string> text_with_metadata(const Header& header, const std::optional<MetadataMap>& metadata);

// The same, padded with spaces so that 8 + its length is a multiple of 8, and with at least slack spaces.
// Error: header_too_large.
[[nodiscard]] Status pad_header_text(std::string& text, std::uint64_t slack);

}  // namespace safetensors::format
