// Makes the texts of headers with other metadata. The tensors keep their order and their offsets.
#pragma once

#include <safetensors/error.h>
#include <safetensors/header.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace safetensors::format {

// The new value of each key. nullopt removes the key, which need not exist. The pointers are not null.
using MetadataEdits = std::map<std::string_view, const std::optional<std::string>*>;

// Returns the text with edited metadata, in the writer's style, without padding. `__metadata__` stays present even if
// its last key is removed. slack: the number of spaces that the caller appends, for which memory is allocated. Error:
// invalid_utf8. Throws std::bad_alloc.
[[nodiscard]] Result<std::string> edited_text(const Header& header, const MetadataEdits& edits,
                                              std::uint64_t slack = 0);

}  // namespace safetensors::format
