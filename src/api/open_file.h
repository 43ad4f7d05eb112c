// File::open for one of many files.
#pragma once

#include <safetensors/file.h>

#include <string_view>

#include "base/cancellation.h"
#include "io/posix_file.h"

namespace safetensors::api {

// The file's descriptor is in the slot, if that has a pool. threads: that read a long header; 0: as many as are of use.
// Errors: as File::open. options.parse.cancelled is not looked at.
[[nodiscard]] Result<File> open_file(std::string_view path, const OpenOptions& options, io::PoolSlot slot,
                                     unsigned threads, base::Cancellation& cancellation) noexcept;

}  // namespace safetensors::api
