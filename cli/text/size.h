// Formats numbers for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/byte_size.h"

namespace safetensors::cli {

using base::size_text;

// Parses a size as base::parse_size() does. The B of a unit may be missing: 500M is 500MB, and 512Mi is 512MiB.
[[nodiscard]] std::optional<std::uint64_t> parse_size(std::string_view text);

// "548,105,171"
[[nodiscard]] std::string grouped(std::uint64_t number);

// "1 tensor", "548,105,171 tensors"
[[nodiscard]] std::string counted(std::uint64_t number, const char* noun);

// "12.5 %": part in whole. "0.0 %" if whole is 0.
[[nodiscard]] std::string share_text(std::uint64_t part, std::uint64_t whole);

}  // namespace safetensors::cli
