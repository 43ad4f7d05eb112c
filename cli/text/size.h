// Formats numbers for people.
#pragma once

#include <cstdint>
#include <string>

#include "base/byte_size.h"

namespace safetensors::cli {

using base::size_text;

// "548,105,171"
[[nodiscard]] std::string grouped(std::uint64_t number);

// "1 tensor", "548,105,171 tensors"
[[nodiscard]] std::string counted(std::uint64_t number, const char* noun);

// "12.5 %": part in whole. "0.0 %" if whole is 0.
[[nodiscard]] std::string share_text(std::uint64_t part, std::uint64_t whole);

}  // namespace safetensors::cli
