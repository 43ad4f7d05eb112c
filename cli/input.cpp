// Opens an argument as a Checkpoint. Standard input is opened as one file: by its descriptor if it is a file. A pipe
// has no offsets, so it is read once, and a Source with the bytes of the header and the size of the whole stands for
// it.
#include "input.h"
#include "text/formatted.h"

#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>

namespace safetensors::cli {
namespace {

constexpr int kDescriptor = 0;

Result<std::size_t> read_some(std::span<std::byte> bytes) {
  for (;;) {
    const ssize_t got = ::read(kDescriptor, bytes.data(), bytes.size());
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno == EINTR) continue;
    const int error_number = errno;
    return Error{.code = Errc::read_failed,
                 .os_error = error_number,
                 .path = {},
                 .message = "cannot read: " + system_text(error_number)};
  }
}

// The beginning of a stream, and its size.
class StreamStart final : public Source {
 public:
  // Reads standard input to its end. Keeps the bytes up to the end of the header.
  static Result<std::shared_ptr<const Source>> read(const ParseOptions& parse) {
    auto stream = std::make_shared<StreamStart>();
    constexpr std::size_t kPrefix = 512;  // as Header::length() recommends
    if (Status status = stream->keep(kPrefix); !status) return status.error();
    // The size of the stream is unknown here. The check with the right size comes when the File is opened.
    const Result<std::uint64_t> length = Header::length(stream->kept_, UINT64_MAX, parse);
    // The rest cannot change this. A pipe that never ends is not read for ever.
    if (!length && stream->kept_.size() == kPrefix) return length.error();
    if (length) {
      const std::size_t end = 8 + static_cast<std::size_t>(*length);
      if (Status status = stream->keep(end); !status) return status.error();
      if (stream->kept_.size() > end) stream->kept_.resize(end);  // the prefix may hold data
    }
    std::vector<std::byte> rest(std::size_t{1} << 20);
    for (;;) {
      const Result<std::size_t> got = read_some(rest);
      if (!got) return got.error();
      if (*got == 0) return std::shared_ptr<const Source>(std::move(stream));
      stream->size_ += *got;
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
  // Reads until `wanted` bytes are kept, or to the end.
  Status keep(std::size_t wanted) {
    constexpr std::size_t kStep = std::size_t{1} << 20;  // a length is hostile until its bytes have come
    while (kept_.size() < wanted) {
      const std::size_t before = kept_.size();
      kept_.resize(std::min(wanted, before + kStep));
      const Result<std::size_t> got = read_some(std::span(kept_).subspan(before));
      kept_.resize(before + (got ? *got : 0));
      size_ = kept_.size();
      if (!got) return got.error();
      if (*got == 0) break;
    }
    return {};
  }

  std::vector<std::byte> kept_;
  std::uint64_t size_ = 0;
};

void notice_white_space(const File& file, const std::string& path, Console& console) {
  if (!file.header().leading_whitespace()) return;
  console.message(formatted(
      "{}: notice: white space before the header's `{{` (byte 8), which the format forbids and verify refuses",
      printable(path)));
}

// The length of the part that all paths have in common, up to and with the last separator.
std::size_t common_folder(std::span<const File> files) {
  const std::string& first = files.front().path();
  std::size_t length = first.size();
  for (const File& file : files) {
    const std::string& path = file.path();
    const auto [end, other] =
        std::mismatch(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(length), path.begin(), path.end());
    length = static_cast<std::size_t>(end - first.begin());
  }
  const std::size_t separator = first.substr(0, length).rfind('/');
  return separator == std::string::npos ? 0 : separator + 1;
}

}  // namespace

Result<File> open_standard_input(const OpenOptions& options) {
  if (::lseek(kDescriptor, 0, SEEK_CUR) >= 0) return File::from_fd(kDescriptor, options);
  Result<std::shared_ptr<const Source>> source = StreamStart::read(options.parse);
  if (!source) return std::move(source).error();
  return File::from_source(*std::move(source), options.parse);
}

Input::Input(Checkpoint checkpoint, bool is_file)
    : checkpoint_(std::move(checkpoint)),
      files_(checkpoint_->files().begin(), checkpoint_->files().end()),
      folder_(files_.empty() ? 0 : common_folder(files_)),
      is_file_(is_file) {}

Result<Input> Input::open(const std::string& argument, Console& console, const ParseOptions& parse) {
  OpenOptions options{.parse = parse};
  options.parse.allow_leading_whitespace = true;
  if (argument == kStandardInput) {
    const Result<File> file = open_standard_input(options);
    if (!file) return file.error();
    notice_white_space(*file, shown_path(argument), console);
    return Input(*file);
  }
  return open(std::span(&argument, 1), console, parse);
}

Result<Input> Input::open(std::span<const std::string> arguments, Console& console, const ParseOptions& parse) {
  OpenOptions options{.parse = parse};
  options.parse.allow_leading_whitespace = true;
  Result<Checkpoint> opened = Checkpoint::open(arguments, {.open = options});
  if (!opened) return std::move(opened).error();
  for (const File& file : opened->files()) notice_white_space(file, file.path(), console);
  const bool is_file = opened->files().size() == 1 && opened->files()[0].path() == arguments[0];
  return Input(*std::move(opened), is_file);
}

std::string Input::file_name(std::size_t file) const {
  return files_[file].path().substr(folder_);
}

std::vector<Listed> Input::tensors() const {
  std::vector<Listed> list;
  if (!checkpoint_) {
    for (const TensorInfo& tensor : files_[0].header().tensors()) list.push_back({&tensor, 0});
    return list;
  }
  list.reserve(checkpoint_->tensors().size());
  std::size_t file = 0;  // the tensors come in the order of the files
  for (const Tensor& tensor : checkpoint_->tensors()) {
    const File owner = tensor.file();
    while (&owner.header() != &files_[file].header()) ++file;
    list.push_back({&tensor.info(), file});
  }
  return list;
}

Result<Listed> Input::find(std::string_view name) const {
  const bool escaped = name.find('\\') != std::string_view::npos;
  const Listed* same_escaped = nullptr;
  const std::vector<Listed> list = tensors();
  for (const Listed& listed : list) {
    if (listed.info->name == name) return listed;
    if (escaped && same_escaped == nullptr && printable(listed.info->name) == name) same_escaped = &listed;
  }
  if (same_escaped != nullptr) return *same_escaped;
  // For the error, which names the most similar tensor.
  const Result<Tensor> none = is_file_ ? files_[0].tensor(name) : checkpoint_->tensor(name);
  return none.error();
}

Result<File> open_file(const std::string& argument, Console& console, const ParseOptions& parse) {
  const Result<Input> input = Input::open(argument, console, parse);
  if (!input) return input.error();
  const std::span<const File> files = input->files();
  if (files.size() == 1) return files[0];
  const std::string such_as = files.empty() ? "" : formatted(": name one, such as `{}`", printable(files[0].path()));
  return Error{.code = Errc::invalid_argument,
               .path = argument,
               .message = formatted("{} files, expected one file{}", files.size(), such_as)};
}

bool is_pipe(const std::string& argument) {
  return argument == kStandardInput && ::lseek(kDescriptor, 0, SEEK_CUR) < 0;
}

Error pipe_without_values() {
  return {
      .code = Errc::unsupported, .path = {}, .message = "values cannot be read from a pipe: save it to a file first"};
}

std::string shown_path(const std::string& argument) {
  return argument == kStandardInput ? "standard input" : argument;
}

Exit input_error(const std::string& argument, const Error& error, Console& console) {
  return console.error(error.path.empty() ? shown_path(argument) : error.path, error);
}

Status check_output_apart(const std::string& output, const std::string& argument, const Input& input) {
  struct stat out = {};
  if (::stat(output.c_str(), &out) != 0) return {};
  const auto is_output = [&](const std::string& path) {
    struct stat in = {};
    const bool standard_input = path.empty() || path == kStandardInput;
    const int failed = standard_input ? ::fstat(STDIN_FILENO, &in) : ::stat(path.c_str(), &in);
    return failed == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino;
  };
  bool same = is_output(argument);
  for (const File& file : input.files()) same = same || is_output(argument == kStandardInput ? argument : file.path());
  if (!same) return {};
  return Error{.code = Errc::invalid_argument, .path = {}, .message = "is a file that is read: choose another OUT"};
}

void json_input_error(Json& json, const std::string& argument, const Error& error) {
  if (!error.path.empty() && error.path != argument) json.field("file", error.path);
  json.error(error);
}

void json_files(Json& json, const Input& input) {
  json.key("files").open('[');
  for (const File& file : input.files()) {
    const Header& header = file.header();
    json.line().open('{').field("path", file.path()).field("file_bytes", header.file_bytes());
    json.field("header_bytes", header.header_bytes()).close('}');
  }
  json.close(']').line();
}

std::string shape_text(ShapeView shape) {
  constexpr std::size_t kShown = 8;
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size() && i < kShown; ++i) {
    text += formatted("{}{}", i == 0 ? "" : ",", shape[i]);
  }
  if (shape.size() > kShown) text += formatted(",...{} dimensions", shape.size());
  return text + "]";
}

std::uint64_t alignment_of(std::uint64_t offset) {
  constexpr unsigned kMaxShift = 16;
  return std::uint64_t{1} << std::min<unsigned>(kMaxShift, static_cast<unsigned>(std::countr_zero(offset)));
}

std::uint64_t parameters(const TensorInfo& tensor) {
  const unsigned element_bits = bits(tensor.dtype);
  const std::uint64_t bytes = tensor.nbytes();
  // bytes * 8 / element_bits in two steps, because bytes * 8 could overflow.
  return bytes / element_bits * 8 + bytes % element_bits * 8 / element_bits;
}

}  // namespace safetensors::cli
