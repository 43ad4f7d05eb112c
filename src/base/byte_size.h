// Numbers of bytes as people write and read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace safetensors::base {

// Returns the decimal digits of the number of bytes that a text such as "4096", "1.5gb" or "512 MiB" stands for,
// rounded down, or nullopt for any other text. KB, MB, GB and TB are powers of 1000. KiB, MiB, GiB and TiB are powers
// of 1024. The case of the letters does not matter. White space is ignored before and after the number and at the end.
[[nodiscard]] std::optional<std::string> size_digits(std::string_view text);

// Returns the number of size_digits(), or nullopt if it is not below 2^64.
[[nodiscard]] std::optional<std::uint64_t> parse_size(std::string_view text);

// "24 B", "1.5 KiB", "522.7 MiB": IEC units, rounded half up to one decimal.
[[nodiscard]] std::string size_text(std::uint64_t bytes);

}  // namespace safetensors::base
