// Changing some bytes of a file where they are.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "io/atomic_file.h"
#include "os/file_system.h"
#include "os/system.h"

namespace safetensors::io {

// Writes bytes at offset, then syncs unless sync is none. A kill or power cut meanwhile leaves any part of them.
// Errors: open_failed, not_regular_file, file_changed (path leads to another file than expected, or it was changed),
// write_failed, sync_failed.
[[nodiscard]] Status overwrite(std::string_view path, const os::FileIdentity& expected, std::uint64_t offset,
                               std::span<const std::byte> bytes, Sync sync,
                               os::System& system = os::real_system()) noexcept;

// Whether path still leads to that file, unchanged. Needs no descriptor. Errors: file_changed, also where nothing is at
// path any more; open_failed where the system does not tell, with os_error.
[[nodiscard]] Status check_unchanged(std::string_view path, const os::FileIdentity& expected) noexcept;

}  // namespace safetensors::io
