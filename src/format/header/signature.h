// Finds the signatures of other kinds of files inside of safetensors files, at the offsets where programs look for
// them.
#pragma once

#include <cstddef>
#include <string_view>

namespace safetensors::format {

// Number of bytes at the start and at the end of a file in which programs look for signatures: the sector of an ISO
// image, and the comment at the end of a zip archive.
inline constexpr std::size_t kStartBytes = 32768 + 8;
inline constexpr std::size_t kEndBytes = 65535 + 22;

// Returns the kind of file whose signature the bytes begin with, such as "a zip archive", or an empty text. The
// signature must have at least four bytes, or three and a plausible fourth. The text is static.
[[nodiscard]] std::string_view begins_like(std::string_view bytes) noexcept;

// A signature in a file.
struct FoundSignature {
  std::string_view kind = {};  // empty: there is none
  std::size_t offset = 0;      // in the bytes given
};

// Looks at the first kStartBytes of a file, or at all of a shorter one.
[[nodiscard]] FoundSignature signature_at_start(std::string_view start) noexcept;

// Looks for the end of a zip archive in the last kEndBytes of a file. A zip archive may begin with any bytes, so the
// end decides.
[[nodiscard]] FoundSignature signature_at_end(std::string_view end) noexcept;

}  // namespace safetensors::format
