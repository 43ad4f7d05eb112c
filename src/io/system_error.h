// Errors that carry what the system said.
#pragma once

#include <safetensors/error.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace safetensors::io {

// "no such file or directory": the same in every locale; "system error 123" for a number without a text here.
[[nodiscard]] std::string describe_errno(int number);

// message: "WHAT: no such file or directory".
[[nodiscard]] Error system_error(Errc code, int number, std::string_view what, std::string_view path = {});

// What a call says that was stopped by who watched its progress.
[[nodiscard]] std::string cancelled_text(std::uint64_t done, std::uint64_t total);

[[nodiscard]] Error plain_error(Errc code, std::string message, std::string_view path = {});

}  // namespace safetensors::io
