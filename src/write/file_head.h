// Shared by all functions that write files: the bytes before the data, and the options of io.
#pragma once

#include <safetensors/error.h>
#include <safetensors/header.h>
#include <safetensors/writer.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/atomic_file.h"

namespace safetensors::write {

// The length of the text in 8 bytes, then the text. Error: header_too_large.
[[nodiscard]] Result<std::string> file_head(std::string_view header_text);

// Size of a file with this head, in bytes. Error: size_overflow.
[[nodiscard]] Result<std::uint64_t> file_size(std::string_view head, std::uint64_t data_bytes);

// Error: data_length, if the tensor does not have `given` bytes.
[[nodiscard]] Status check_length(const TensorInfo& tensor, std::uint64_t given);

[[nodiscard]] io::Sync to_sync(Durability durability) noexcept;
[[nodiscard]] io::AtomicFileOptions to_atomic_file_options(const WriteOptions& options) noexcept;

[[nodiscard]] inline std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace safetensors::write
