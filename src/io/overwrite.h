// Changing some bytes of a file where they are.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "io/file_system.h"
#include "io/replace.h"
#include "io/system.h"

namespace safetensors::io {

// Writes bytes at offset, then syncs unless sync is none. A kill or power cut meanwhile leaves any part of them.
// Errors: open_failed, not_regular_file, file_changed (path leads to another file than expected, or it was changed),
// write_failed, sync_failed.
[[nodiscard]] Status overwrite(std::string_view path, const FileIdentity& expected, std::uint64_t offset,
                               std::span<const std::byte> bytes, Sync sync, System& system = real_system()) noexcept;

}  // namespace safetensors::io
