// Makes the text of a header with other metadata. The tensors keep their order and their offsets.
#pragma once

#include <safetensors/error.h>
#include <safetensors/header.h>

#include <map>
#include <optional>
#include <string>

namespace safetensors::format {

using MetadataMap = std::map<std::string, std::string>;

// Returns the text in the writer's style, without padding. nullopt: the text has no __metadata__. Error: invalid_utf8.
// Throws std::bad_alloc.
[[nodiscard]] Result<std::string> text_with_metadata(const Header& header, const std::optional<MetadataMap>& metadata);

}  // namespace safetensors::format
