// Opens standard input: by its descriptor if it is a file. A pipe has no offsets. If a command needs only the header, a
// Source with the bytes of the header and the size of the complete file stands for the pipe. If it needs values, the
// pipe is copied to a file without a name. The header says how long the pipe must be, so a pipe that never ends fills
// no disk.
#include "standard_input.h"

#include "console.h"
#include "interrupt.h"
#include "text/text.h"

#include "os/command/command.h"
#include "os/descriptor.h"
#include "os/regular_file.h"
#include "os/system_error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace safetensors::cli {
namespace {

// Bytes of one read. The length in front of a header may be a lie, so memory grows only with the bytes read.
constexpr std::size_t kStep = std::size_t{1} << 20;

// Holds a header and the size of the complete file. Reads of the data fail.
class HeaderSource final : public Source {
 public:
  HeaderSource(std::span<const std::byte> header, std::uint64_t size)
      : kept_(header.begin(), header.end()), size_(size) {}

  [[nodiscard]] Result<std::uint64_t> size() const noexcept override { return size_; }

  [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> destination) const noexcept override {
    if (offset >= size_ || destination.empty()) return std::size_t{0};
    if (offset >= kept_.size()) return fault(Errc::unsupported, "the input has only the first bytes of the file");
    const std::size_t count =
        std::min<std::size_t>(destination.size(), kept_.size() - static_cast<std::size_t>(offset));
    std::memcpy(destination.data(), kept_.data() + offset, count);
    return count;
  }

 private:
  const std::vector<std::byte> kept_;
  const std::uint64_t size_;
};

constexpr int kDescriptor = os::kStandardInput;

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
  return first.as_file(size, parse, missing);
}

Error not_kept(const std::string& what, int error_number) {
  Error error = os::system_error(Errc::write_failed, error_number, what);
  error.message += " (set TMPDIR to a folder with more room, or save the pipe to a file first)";
  return error;
}

// Copies the pipe to a file without a name, which is gone when its descriptor is closed.
Result<File> keep_pipe(const FirstBytes& start, const OpenOptions& options) {
  const Result<std::optional<std::uint64_t>> size = start.file_size(options.parse);
  if (!size) return size.error();
  std::error_code error;
  const std::string folder = std::filesystem::temp_directory_path(error).string();
  if (error) return not_kept("cannot find the folder for temporary files (TMPDIR)", error.value());
  const os::Descriptor file = os::make_unnamed_file(folder);
  int failed = file.valid() ? write_all(file.get(), as_text(start.bytes())) : errno;
  std::uint64_t done = start.bytes().size();
  // One byte more shows that the pipe is too long. To count unused bytes, read to the end.
  const std::uint64_t most = options.parse.accept.unused_bytes ? UINT64_MAX : *size ? **size + 1 : done;
  std::vector<std::byte> buffer(std::size_t{256} << 10);
  while (done < most && failed == 0) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), most - done));
    const Result<std::size_t> got = read_standard_input(std::span(buffer).first(wanted));
    if (!got) return got.error();
    if (*got == 0) break;
    failed = write_all(file.get(), as_text(std::span(buffer).first(*got)));
    done += *got;
  }
  if (failed != 0) return not_kept("cannot keep the data of the pipe in " + folder, failed);
  return File::from_fd(file.get(), options);
}

}  // namespace

// FirstBytes reads a header from the start of a file, and opens it as a File whose Source holds only the header. To
// learn the size of the complete file, the header is parsed as that of the longest possible file: this is an error,
// whose offset says where the tensors end.

Result<FirstBytes> FirstBytes::read(const ParseOptions& parse, const ReadNext& next) {
  FirstBytes first;
  constexpr std::size_t kPrefix = 512;  // as Header::length() recommends
  if (Status status = first.grow(kPrefix, next); !status) return status.error();
  // The size of the file is unknown here. It is checked when the File is opened.
  const Result<std::uint64_t> length = Header::length(first.bytes_, UINT64_MAX, parse);
  if (!length && first.bytes_.size() == kPrefix) return length.error();
  if (!length) return first;
  first.header_end_ = 8 + static_cast<std::size_t>(*length);
  if (Status status = first.grow(first.header_end_, next); !status) return status.error();
  return first;
}

Status FirstBytes::grow(std::size_t wanted, const ReadNext& next) {
  while (bytes_.size() < wanted) {
    const std::size_t before = bytes_.size();
    bytes_.resize(std::min(wanted, before + kStep));
    const Result<std::size_t> got = next(std::span(bytes_).subspan(before));
    bytes_.resize(before + (got ? *got : 0));
    if (!got) return got.error();
    if (*got == 0) break;
  }
  return {};
}

std::string FirstBytes::text() const {
  if (header_end_ == 0 || bytes_.size() < header_end_) return {};
  return std::string(as_text(bytes_).substr(8, header_end_ - 8));
}

Result<std::optional<std::uint64_t>> FirstBytes::file_size(const ParseOptions& parse) const {
  const std::string header = text();
  if (header.empty()) return std::optional<std::uint64_t>();
  ParseOptions strict = parse;
  strict.accept.unused_bytes = false;
  const Result<Header> parsed = Header::parse(header, UINT64_MAX, strict);
  // The offset of this error is the end of the tensors (docs/format.md, rule 10).
  if (!parsed && parsed.error().code == Errc::incomplete_data) return std::optional(parsed.error().offset);
  return parsed ? Result<std::optional<std::uint64_t>>(std::nullopt) : parsed.error();
}

Result<File> FirstBytes::as_file(std::uint64_t size, const ParseOptions& parse,
                                 std::optional<MissingData>* missing) const {
  if (missing != nullptr) {
    if (header_end_ > bytes_.size())
      return fault(Errc::invalid_header_length,
                   formatted("the input ends in the header: found {} bytes, expected at least the first {}",
                             bytes_.size(), header_end_));
    const Result<std::optional<std::uint64_t>> whole = file_size(parse);
    if (!whole) return whole.error();
    if (*whole && **whole > size) *missing = MissingData{**whole - size, **whole - header_end_};
  }
  const auto header = std::span(bytes_).first(header_end_ == 0 ? bytes_.size() : std::min(bytes_.size(), header_end_));
  const std::uint64_t end = size + (missing != nullptr && *missing ? (*missing)->missing : 0);
  return File::from_source(std::make_shared<const HeaderSource>(header, end), parse);
}

Result<FirstBytes> FirstBytes::of(const std::string& path, const ParseOptions& parse) {
  const auto file = path.empty() ? os::RegularFile::from_fd(kDescriptor) : os::RegularFile::open(path);
  if (!file) return file.error();
  std::uint64_t offset = 0;
  Result<FirstBytes> first = read(parse, [&](std::span<std::byte> bytes) {
    Result<std::size_t> got = (*file)->read_at(offset, bytes);
    offset += got ? *got : 0;
    return got;
  });
  if (first) first->size_ = (*file)->identity().size;
  return first;
}

Result<File> open_part(const std::string& path, const ParseOptions& parse, std::optional<MissingData>& missing) {
  const Result<FirstBytes> first = FirstBytes::of(path, parse);
  return first ? first->as_file(first->size(), parse, &missing) : first.error();
}

bool is_too_short(const Error& error) {
  return error.code == Errc::incomplete_data || error.code == Errc::invalid_header_length;
}

Result<std::size_t> read_standard_input(std::span<std::byte> bytes) {
  for (;;) {
    // With an Interrupt, the system continues a read after a signal, but a poll ends.
    constexpr int kMilliseconds = 200;  // a signal may come just before the poll
    const int ready = os::wait_to_read(kDescriptor, kMilliseconds);
    if (Interrupt::caught()) return Interrupt::error();
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const std::ptrdiff_t got = os::read_next(kDescriptor, bytes.data(), bytes.size());
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) return os::system_error(Errc::read_failed, errno, "cannot read");
  }
}

Result<File> open_standard_input(const OpenOptions& options, PipeData data, std::optional<MissingData>* missing) {
  if (os::has_offsets(kDescriptor)) {
    Result<File> file = File::from_fd(kDescriptor, options);
    const bool part = !file && missing != nullptr && is_too_short(file.error());
    return part ? open_part("", options.parse, *missing) : file;
  }
  const Result<FirstBytes> first = FirstBytes::read(options.parse, read_standard_input);
  if (!first) return first.error();
  return data == PipeData::keep ? keep_pipe(*first, options) : drain_pipe(*first, options.parse, missing);
}

bool is_pipe(const std::string& argument) {
  return argument == kStandardInput && !os::has_offsets(kDescriptor);
}

}  // namespace safetensors::cli
