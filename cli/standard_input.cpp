// Opens standard input: by its descriptor if it is a file. A pipe has no offsets. If a command needs only the header, a
// Source with the bytes of the header and the size of the complete file stands for the pipe. If it needs values, the
// pipe is copied to a file without a name. The header says how long the pipe must be, so a pipe that never ends fills
// no disk.
#include "standard_input.h"
#include "console.h"
#include "interrupt.h"
#include "text/formatted.h"

#include "os/command/standard_streams.h"
#include "os/command/unnamed_file.h"
#include "os/descriptor.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

namespace safetensors::cli {
namespace {

constexpr int kDescriptor = os::kStandardInput;

Error system_failure(Errc code, int error_number, const std::string& what) {
  return {.code = code, .os_error = error_number, .path = {}, .message = what + ": " + system_text(error_number)};
}

// Reads the rest of the pipe and opens its header as a file.
Result<File> drain_pipe(const FirstBytes& first, const ParseOptions& parse, std::optional<MissingData>* missing) {
  std::uint64_t size = first.bytes().size();
  std::vector<std::byte> rest(std::size_t{1} << 20);
  for (;;) {
    const Result<std::size_t> got = read_standard_input(rest);
    if (!got) return got.error();
    if (*got == 0) break;
    size += *got;
  }
  if (missing != nullptr) return first.as_part(size, parse, *missing);
  return first.as_file(size, parse, "a pipe cannot be read at an offset: save it to a file first");
}

// A file without a name, which is gone when its descriptor is closed.
class UnnamedFile {
 public:
  Status create() {
    std::error_code error;
    folder_ = std::filesystem::temp_directory_path(error).string();
    if (error) return failure("cannot find the folder for temporary files (TMPDIR)", error.value());
    descriptor_ = os::make_unnamed_file(folder_);
    if (descriptor_.valid()) return {};
    return failure("cannot keep the data of the pipe in " + folder_, errno);
  }

  Status append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::ptrdiff_t count = os::write_next(descriptor_.get(), bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return failure("cannot keep the data of the pipe in " + folder_, count < 0 ? errno : EIO);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return {};
  }

  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

 private:
  static Error failure(const std::string& what, int error_number) {
    Error error = system_failure(Errc::write_failed, error_number, what);
    error.message += " (set TMPDIR to a folder with more room, or save the pipe to a file first)";
    return error;
  }

  std::string folder_;
  os::Descriptor descriptor_;
};

Result<File> keep_pipe(const FirstBytes& start, const OpenOptions& options) {
  const Result<std::optional<std::uint64_t>> size = start.file_size(options.parse);
  if (!size) return size.error();
  UnnamedFile file;
  if (Status status = file.create(); !status) return status.error();
  if (Status status = file.append(start.bytes()); !status) return status.error();
  std::uint64_t done = start.bytes().size();
  // One byte more shows that the pipe is too long. To count unused bytes, read to the end.
  const std::uint64_t most = options.parse.accept.unused_bytes ? UINT64_MAX : *size ? **size + 1 : done;
  std::vector<std::byte> buffer(std::size_t{256} << 10);
  while (done < most) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), most - done));
    const Result<std::size_t> got = read_standard_input(std::span(buffer).first(wanted));
    if (!got) return got.error();
    if (*got == 0) break;
    if (Status status = file.append(std::span(buffer).first(*got)); !status) return status.error();
    done += *got;
  }
  return File::from_fd(file.descriptor(), options);
}

}  // namespace

Result<std::size_t> read_standard_input(std::span<std::byte> bytes) {
  for (;;) {
    // With an Interrupt, the system continues a read after a signal, but a poll ends.
    constexpr int kMilliseconds = 200;  // a signal may come just before the poll
    const int ready = os::wait_to_read(kDescriptor, kMilliseconds);
    if (Interrupt::caught()) return Interrupt::error();
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const std::ptrdiff_t got = os::read_next(kDescriptor, bytes.data(), bytes.size());
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) return system_failure(Errc::read_failed, errno, "cannot read");
  }
}

Result<File> open_standard_input(const OpenOptions& options, PipeData data, std::string* refused,
                                 std::optional<MissingData>* missing) {
  if (os::position_of(kDescriptor) >= 0) {
    Result<File> file = File::from_fd(kDescriptor, options);
    const bool part = !file && missing != nullptr && is_too_short(file.error());
    return part ? open_part("", options.parse, *missing) : file;
  }
  const Result<FirstBytes> first = FirstBytes::read(options.parse, read_standard_input);
  if (!first) return first.error();
  Result<File> file = data == PipeData::keep ? keep_pipe(*first, options) : drain_pipe(*first, options.parse, missing);
  if (!file && refused != nullptr) *refused = first->text();
  return file;
}

bool is_pipe(const std::string& argument) {
  return argument == kStandardInput && os::position_of(kDescriptor) < 0;
}

}  // namespace safetensors::cli
