// Shared by all functions that write files: the bytes before the data, and the options of io.
#pragma once

#include <safetensors/error.h>
#include <safetensors/header.h>
#include <safetensors/writer.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "io/atomic_file.h"

namespace safetensors::write {

// In bytes. Heads and indexes are written in pieces of about this size. They go through the page cache, and need none
// of the bounce buffers of direct writes, which take 8 MiB.
inline constexpr std::size_t kHeadPiece = std::size_t{64} << 10;

// The length of the text of a header, in 8 bytes.
[[nodiscard]] std::string prefix_of(std::uint64_t length);

// The sizes of a file with a header, in bytes.
struct FileSize {
  std::uint64_t head = 0;  // the bytes before the data
  std::uint64_t file = 0;
};
// Errors: header_too_large, size_overflow.
[[nodiscard]] Result<FileSize> size_of(const Header& header);
// Gives the head of a file with this header to `write` in pieces, so that it is never in memory as a whole. head_bytes:
// FileSize::head of the header. Error: the first one of `write`, which is not called again.
[[nodiscard]] Status write_head(
    const Header& header, std::uint64_t head_bytes,
    const std::function<Status(std::uint64_t offset, std::span<const std::byte> bytes)>& write);

// Error: invalid_argument, if readers refuse an index of this size.
[[nodiscard]] Status check_index_size(std::uint64_t size, std::string_view path);

[[nodiscard]] io::AtomicFileOptions to_atomic_file_options(const WriteOptions& options) noexcept;

[[nodiscard]] inline std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Calls a function that returns a Status or a Result, and gives its error the path if it has none.
template <class Call>
auto with_path(std::string_view path, const Call& call) noexcept -> decltype(call()) {
  auto result = base::guarded(call);
  if (result) return result;
  return base::guarded([&]() -> decltype(call()) { return base::with_path(std::move(result).error(), path); });
}

}  // namespace safetensors::write
