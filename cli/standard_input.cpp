// Opens standard input: by its descriptor if it is a file. A pipe has no offsets. If a command needs only the header, a
// Source with the bytes of the header and the size of the whole stands for the pipe. If it needs values, the pipe is
// copied to a file without a name. The header says how long the pipe must be, so a pipe that never ends fills no disk.
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
constexpr std::size_t kStep = std::size_t{1} << 20;  // bytes; a length is hostile until its bytes have come

Error system_failure(Errc code, int error_number, const std::string& what) {
  return {.code = code, .os_error = error_number, .path = {}, .message = what + ": " + system_text(error_number)};
}

// Returns 0 at the end.
Result<std::size_t> read_some(std::span<std::byte> bytes) {
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

// The first bytes of a pipe: its header, or less if the header is not valid.
class PipeStart {
 public:
  // Reads the header and nothing more, except for the end of a prefix of 512 bytes. Errors: those of Header::length()
  // that no further byte can change, and read_failed.
  static Result<PipeStart> read(const ParseOptions& parse) {
    PipeStart start;
    constexpr std::size_t kPrefix = 512;  // as Header::length() recommends
    if (Status status = start.grow(kPrefix); !status) return status.error();
    // The size of the pipe is unknown here. The check with the right size comes when the File is opened.
    const Result<std::uint64_t> length = Header::length(start.bytes_, UINT64_MAX, parse);
    if (!length && start.bytes_.size() == kPrefix) return length.error();
    if (!length) return start;
    start.header_end_ = 8 + static_cast<std::size_t>(*length);
    if (Status status = start.grow(start.header_end_); !status) return status.error();
    return start;
  }

  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }
  // The bytes of the header, or all bytes if there are fewer.
  [[nodiscard]] std::span<const std::byte> header() const {
    return std::span(bytes_).first(header_end_ == 0 ? bytes_.size() : std::min(bytes_.size(), header_end_));
  }
  // The text of the header. Empty if the header is not whole.
  [[nodiscard]] std::string text() const {
    if (header_end_ == 0 || bytes_.size() < header_end_) return {};
    return {reinterpret_cast<const char*>(bytes_.data()) + 8, header_end_ - 8};
  }
  // The size that a file with this header has. Empty if the header is not whole. Errors: those of rules 4 to 9.
  [[nodiscard]] Result<std::optional<std::uint64_t>> file_size(const ParseOptions& parse) const {
    const std::string header = text();
    if (header.empty()) return std::optional<std::uint64_t>();
    ParseOptions strict = parse;
    strict.accept.unused_bytes = false;
    const Result<Header> parsed = Header::parse(header, UINT64_MAX, strict);
    // The offset of this error is the end of the tensors (docs/format.md, rule 10).
    if (!parsed && parsed.error().code == Errc::incomplete_data) return std::optional(parsed.error().offset);
    return parsed ? Result<std::optional<std::uint64_t>>(std::nullopt) : parsed.error();
  }

 private:
  // Reads until there are `wanted` bytes, or to the end.
  Status grow(std::size_t wanted) {
    while (bytes_.size() < wanted) {
      const std::size_t before = bytes_.size();
      bytes_.resize(std::min(wanted, before + kStep));
      const Result<std::size_t> got = read_some(std::span(bytes_).subspan(before));
      bytes_.resize(before + (got ? *got : 0));
      if (!got) return got.error();
      if (*got == 0) break;
    }
    return {};
  }

  std::vector<std::byte> bytes_;
  std::size_t header_end_ = 0;  // 0: unknown
};

// The header of a pipe, and the size of the whole.
class HeaderOfPipe final : public Source {
 public:
  static Result<File> open(const PipeStart& start, const ParseOptions& parse) {
    auto source = std::make_shared<HeaderOfPipe>();
    source->kept_.assign(start.header().begin(), start.header().end());
    source->size_ = start.bytes().size();
    std::vector<std::byte> rest(kStep);
    for (;;) {
      const Result<std::size_t> got = read_some(rest);
      if (!got) return got.error();
      if (*got == 0) return File::from_source(std::shared_ptr<const Source>(std::move(source)), parse);
      source->size_ += *got;
    }
  }

  [[nodiscard]] Result<std::uint64_t> size() const noexcept override { return size_; }

  [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset,
                                            std::span<std::byte> destination) const noexcept override {
    if (offset >= size_ || destination.empty()) return std::size_t{0};
    if (offset >= kept_.size()) {
      return Error{.code = Errc::unsupported,
                   .path = {},
                   .message = "a pipe cannot be read at an offset: save it to a file first"};
    }
    const std::size_t count =
        std::min<std::size_t>(destination.size(), kept_.size() - static_cast<std::size_t>(offset));
    std::memcpy(destination.data(), kept_.data() + offset, count);
    return count;
  }

 private:
  std::vector<std::byte> kept_;
  std::uint64_t size_ = 0;
};

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

Result<File> keep_pipe(const PipeStart& start, const OpenOptions& options) {
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
    const Result<std::size_t> got = read_some(std::span(buffer).first(wanted));
    if (!got) return got.error();
    if (*got == 0) break;
    if (Status status = file.append(std::span(buffer).first(*got)); !status) return status.error();
    done += *got;
  }
  return File::from_fd(file.descriptor(), options);
}

}  // namespace

Result<File> open_standard_input(const OpenOptions& options, PipeData data, std::string* refused) {
  if (os::position_of(kDescriptor) >= 0) return File::from_fd(kDescriptor, options);
  const Result<PipeStart> start = PipeStart::read(options.parse);
  if (!start) return start.error();
  Result<File> file = data == PipeData::keep ? keep_pipe(*start, options) : HeaderOfPipe::open(*start, options.parse);
  if (!file && refused != nullptr) *refused = start->text();
  return file;
}

bool is_pipe(const std::string& argument) {
  return argument == kStandardInput && os::position_of(kDescriptor) < 0;
}

}  // namespace safetensors::cli
