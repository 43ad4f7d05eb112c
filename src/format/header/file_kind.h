// Names the common kinds of files that users open instead of a model: pointers, web pages, archives, other formats.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <string_view>

namespace safetensors::format {

/// Number of bytes from the start of a file in which file_kind() looks for signatures. The last one is that of a tar
/// archive, at byte 257.
inline constexpr std::size_t kFileKindBytes = 512;

/// A kind of file that is not safetensors.
struct FileKind {
  std::string_view name = {};  ///< "a gzip file"; empty if the kind is unknown
  std::string_view hint = {};  ///< "decompress it first"; may be empty
};

/// Recognizes a file by `start`, its first bytes: kFileKindBytes of them, or all bytes of a shorter file. With fewer
/// bytes it recognizes fewer kinds. If the file begins with a header's length and a `{`, the kind is always unknown.
/// The texts are static.
[[nodiscard]] FileKind file_kind(std::string_view start) noexcept;

/// Returns `error` with a message that names the kind of the file: "the file is a gzip file, not a safetensors file
/// (decompress it first): header too large". The first words up to the colon become the last ones. Code and offset
/// stay. Returns the error unchanged if it belongs to rule 6 or higher, or if the kind is unknown. Throws
/// std::bad_alloc.
[[nodiscard]] Error with_file_kind(Error error, std::string_view start);

}  // namespace safetensors::format
