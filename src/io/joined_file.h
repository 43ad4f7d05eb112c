// Opens the temporary file of another process, to write ranges of it.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/file_writer.h"
#include "os/system.h"

namespace safetensors::io {

// The temporary file of another process.
struct JoinedFilePlace {
  std::string folder;        // path of its folder
  std::string name;          // its name in the folder
  std::uint64_t size = 0;    // of the complete file, in bytes
  std::string_view shown{};  // the path that errors show
};

// Opens the file if it begins with `head`. Never creates, locks or removes a file. system must outlive the FileWriter.
// Errors: open_failed, not_regular_file, read_failed, file_changed, invalid_argument (the file begins with other
// bytes).
[[nodiscard]] Result<std::unique_ptr<FileWriter>> join_file(const JoinedFilePlace& place,
                                                            std::span<const std::byte> head, Sync sync,
                                                            os::System& system = os::real_system());

}  // namespace safetensors::io
