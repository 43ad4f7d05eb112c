// Standard input as a file.
#pragma once

#include "first_bytes.h"

#include <safetensors/file.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace safetensors::cli {

// The name of standard input among the arguments.
inline constexpr std::string_view kStandardInput = "-";

// How a command uses the data of a pipe.
enum class PipeData : std::uint8_t {
  skip,  // it needs only the header: the data is read, to check its size, and thrown away
  keep,  // it reads values: the data is copied to a file without a name, in the folder for temporary files
  part,  // like skip, but bytes at the end may be missing, also from a file
};

// Opens standard input: by its descriptor if it is a file. A pipe is read to its end. With PipeData::keep, it is read
// only if its header is valid, and at most one byte further than the header says. Errors: those of File::open, and
// write_failed if there is no space for the data. refused: receives the text of the header of a pipe, if the header is
// complete but invalid. missing: if it is not null, the input may end anywhere after the header, and `missing` receives
// how much of the data is missing.
[[nodiscard]] Result<File> open_standard_input(const OpenOptions& options, PipeData data = PipeData::skip,
                                               std::string* refused = nullptr,
                                               std::optional<MissingData>* missing = nullptr);

// Reads up to bytes.size() bytes, and returns their number: 0 at the end. Errors: read_failed, cancelled.
[[nodiscard]] Result<std::size_t> read_standard_input(std::span<std::byte> bytes);

// Returns whether the argument is standard input, and standard input is a pipe, whose bytes have no offsets.
[[nodiscard]] bool is_pipe(const std::string& argument);

}  // namespace safetensors::cli
