// The first bytes of a file, such as a range of a download: its header, and perhaps a part of its data.
#pragma once

#include <safetensors/file.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace safetensors::cli {

// The number of bytes of the data, and how many of them are not there.
struct MissingData {
  std::uint64_t missing;
  std::uint64_t total;
};

// The header of a file, read in order.
class FirstBytes {
 public:
  // Reads the next bytes. Returns 0 at the end.
  using ReadNext = std::function<Result<std::size_t>(std::span<std::byte> bytes)>;

  // Reads the header and nothing more, except for the end of a prefix of 512 bytes. Errors: those of Header::length()
  // that no further byte can change, and those of `next`.
  [[nodiscard]] static Result<FirstBytes> read(const ParseOptions& parse, const ReadNext& next);

  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }
  // The text of the header. Empty if the header is not whole.
  [[nodiscard]] std::string text() const;
  // The size that a file with this header has. Empty if the header is not whole. Errors: those of rules 4 to 9.
  [[nodiscard]] Result<std::optional<std::uint64_t>> file_size(const ParseOptions& parse) const;
  // The header as a file of this size, whose data cannot be read. why: the message of an error of such a read.
  [[nodiscard]] Result<File> as_file(std::uint64_t size, const ParseOptions& parse, std::string why) const;
  // The header as a file. If `size`, the number of bytes that are there, is less than the size of the file, sets
  // `missing`. Errors: those of File::from_source(), and a text of its own if the input ends in the header.
  [[nodiscard]] Result<File> as_part(std::uint64_t size, const ParseOptions& parse,
                                     std::optional<MissingData>& missing) const;

 private:
  // Reads until there are `wanted` bytes, or to the end.
  Status grow(std::size_t wanted, const ReadNext& next);
  // The bytes of the header, or all bytes if there are fewer.
  [[nodiscard]] std::span<const std::byte> header() const;

  std::vector<std::byte> bytes_;
  std::size_t header_end_ = 0;  // 0: unknown
};

// Opens a regular file that may lack data at its end. path: empty for a file on standard input. Errors: those of
// FirstBytes, open_failed, read_failed.
[[nodiscard]] Result<File> open_part(const std::string& path, const ParseOptions& parse,
                                     std::optional<MissingData>& missing);

// Returns whether a file is refused because bytes at its end are missing.
[[nodiscard]] bool is_too_short(const Error& error);
// Adds to the error of a file that is too short: --header-only shows what its header says.
[[nodiscard]] Error with_header_only_hint(Error error);

}  // namespace safetensors::cli
