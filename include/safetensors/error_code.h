/// @file
/// Error codes as std::error_code. safetensors.h does not include this header.
///
/// Thread-safety: any number of threads may call the functions of this header at the same time.
#pragma once

#include <safetensors/error.h>

#include <system_error>

namespace safetensors {
inline namespace v0 {

/// Returns the category of the codes. Its messages are the names that to_string() returns.
///
/// These codes compare equal to conditions of `std::errc`: out_of_memory (not_enough_memory), cancelled
/// (operation_canceled), unsupported (not_supported), invalid_argument (invalid_argument), not_found
/// (no_such_file_or_directory).
[[nodiscard]] SAFETENSORS_API const std::error_category& error_category() noexcept;

/// Makes the std::error_code of a code. Implicit conversions use it: `std::error_code code = Errc::not_found;`
[[nodiscard]] inline std::error_code make_error_code(Errc code) noexcept {
  return {static_cast<int>(code), error_category()};
}

}  // namespace v0
}  // namespace safetensors

// Doxygen cannot read a specialization of a class in std.
/// @cond
template <>
struct std::is_error_code_enum<safetensors::Errc> : std::true_type {};
/// @endcond
