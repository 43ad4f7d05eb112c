// The option --accept: faults of a file that a command tolerates, by choice.
#pragma once

#include "arguments.h"
#include "console.h"
#include "json_output.h"

#include <safetensors/header.h>

#include <string>

namespace safetensors::cli {

// The row of the option in the table of a command.
inline constexpr Option kAcceptOption = {"--accept", "LIST",
                                         "accept faults: unknown-dtypes,\n"
                                         "unused-bytes, or both with a comma"};

// The value of --accept. Throws UsageError.
[[nodiscard]] Accept accept_of(const Arguments& given);

// Writes a notice if the reader accepted faults.
void notice_tolerated(const Header& header, const std::string& path, Console& console);
// Writes the member "tolerated" if the reader accepted faults.
void json_tolerated(Json& json, const Header& header);

}  // namespace safetensors::cli
