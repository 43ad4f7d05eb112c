// Changes bytes of a file in place.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "io/file_writer.h"
#include "os/file_status.h"
#include "os/system.h"

namespace safetensors::io {

// Writes bytes at offset, then syncs unless sync is Sync::none. After a kill or a power cut, any part of the bytes can
// be in the file. Errors: open_failed, not_regular_file, file_changed (the path leads to a file other than `expected`,
// or that file was changed), write_failed, sync_failed.
[[nodiscard]] Status overwrite(std::string_view path, const os::FileIdentity& expected, std::uint64_t offset,
                               std::span<const std::byte> bytes, Sync sync,
                               os::System& system = os::real_system()) noexcept;

// Checks that path still leads to the expected file and that the file is unchanged. Opens no descriptor. Errors:
// file_changed, also if nothing is at the path any more; open_failed, with os_error, if the system does not tell.
[[nodiscard]] Status check_unchanged(std::string_view path, const os::FileIdentity& expected) noexcept;

}  // namespace safetensors::io
