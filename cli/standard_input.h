// Standard input as a file.
#pragma once

#include <safetensors/file.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

// How much of the data of a file is missing.
struct MissingData {
  std::uint64_t missing;  // bytes
  std::uint64_t total;    // bytes of the data of the complete file
};

// Reads the header at the start of a file or of a pipe.
class FirstBytes {
 public:
  // Reads the next bytes. Returns 0 at the end.
  using ReadNext = std::function<Result<std::size_t>(std::span<std::byte> bytes)>;

  // Reads the header, or 512 bytes if the header is shorter. Errors: those of Header::length() that no further byte can
  // change, and those of `next`.
  [[nodiscard]] static Result<FirstBytes> read(const ParseOptions& parse, const ReadNext& next);

  // The same for a regular file. path: empty for the file on standard input. Errors also: those of os::RegularFile.
  [[nodiscard]] static Result<FirstBytes> of(const std::string& path, const ParseOptions& parse);

  // The size of the file that of() read, in bytes. 0 after read().
  [[nodiscard]] std::uint64_t size() const { return size_; }

  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }
  // Returns the end of the header, which may be after the end of the bytes. 0: it is unknown.
  [[nodiscard]] std::size_t header_end() const { return header_end_; }
  // Returns the text of the header. Empty if the header is not complete.
  [[nodiscard]] std::string text() const;
  // Returns the size of a file with this header, in bytes. Returns nullopt if the header is not complete. Errors: those
  // of rules 4 to 9.
  [[nodiscard]] Result<std::optional<std::uint64_t>> file_size(const ParseOptions& parse) const;
  // Opens the header as a file whose data cannot be read. size: the number of bytes in the input. missing: if it is not
  // null, the input may end anywhere after the header, and `missing` receives how much of the data is missing. Errors:
  // those of File::from_source(), and invalid_header_length if the input ends in the header.
  [[nodiscard]] Result<File> as_file(std::uint64_t size, const ParseOptions& parse,
                                     std::optional<MissingData>* missing) const;

 private:
  // Reads until there are `wanted` bytes, or to the end.
  Status grow(std::size_t wanted, const ReadNext& next);

  std::vector<std::byte> bytes_;
  std::size_t header_end_ = 0;  // 0: unknown
  std::uint64_t size_ = 0;      // of the file
};

// Opens a regular file that may lack data at its end. path: empty for the file on standard input. Errors: those of
// FirstBytes, open_failed, read_failed.
[[nodiscard]] Result<File> open_part(const std::string& path, const ParseOptions& parse,
                                     std::optional<MissingData>& missing);

// Returns whether an error may come from missing bytes at the end of a file.
[[nodiscard]] bool is_too_short(const Error& error);

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
// write_failed if there is no space for the data. missing: if it is not null, the input may end anywhere after the
// header, and `missing` receives how much of the data is missing.
[[nodiscard]] Result<File> open_standard_input(const OpenOptions& options, PipeData data = PipeData::skip,
                                               std::optional<MissingData>* missing = nullptr);

// Reads up to bytes.size() bytes, and returns their number: 0 at the end. Errors: read_failed, cancelled.
[[nodiscard]] Result<std::size_t> read_standard_input(std::span<std::byte> bytes);

// Returns whether the argument is standard input, and standard input is a pipe, whose bytes have no offsets.
[[nodiscard]] bool is_pipe(const std::string& argument);

}  // namespace safetensors::cli
