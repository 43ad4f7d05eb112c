// Errors that carry what the system said.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace safetensors::os {

// "no such file or directory": the same in every locale; "system error 123" for a number without a text here.
[[nodiscard]] std::string describe_errno(int number);

// message: "WHAT: no such file or directory".
[[nodiscard]] Error system_error(Errc code, int number, std::string_view what, std::string_view path = {});

// read_failed: of a read of so many bytes of a file.
[[nodiscard]] Error read_error(int number, std::size_t size, std::uint64_t offset);
// Whether a write failed because the file system, a quota or the largest file has no room for it.
[[nodiscard]] bool out_of_space(int number) noexcept;

}  // namespace safetensors::os
