// The name that was probably meant.
#pragma once

#include <safetensors/header.h>

#include <string_view>

namespace safetensors::api {

// A name with the same ending (or the other way round), else the one fewest edits away; empty when none is near.
// The work is bounded whatever the names are; the result lives as long as the header.
[[nodiscard]] std::string_view similar_name(const Header& header, std::string_view name) noexcept;

}  // namespace safetensors::api
