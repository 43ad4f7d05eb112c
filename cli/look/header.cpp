// Prints the text of a header. If the library refuses the header because of its content, the text is read here, so that
// it can be looked at.
#include "header.h"

#include "input.h"
#include "json_output.h"
#include "text/escape.h"
#include "text/pretty_json.h"
#include "text/size.h"

#include "os/command/standard_streams.h"
#include "os/descriptor.h"
#include "os/open.h"
#include "os/system.h"

#include <cerrno>

namespace safetensors::cli {
namespace {

Error system_error(Errc code, std::string message) {
  const int error_number = errno;
  return {.code = code, .os_error = error_number, .path = {}, .message = message + ": " + system_text(error_number)};
}

// Reads the header of a file that File::open() refused because of the header's content. The length is valid then. path:
// empty for a file on standard input.
Result<std::string> read_refused(const std::string& path, const ParseOptions& parse) {
  os::System& system = os::real_system();
  constexpr os::OpenFlags kFlags = os::OpenFlags::read | os::OpenFlags::no_wait | os::OpenFlags::no_terminal;
  const os::Descriptor file(path.empty() ? system.duplicate(os::kStandardInput)
                                         : system.open_at(os::kWorkingDirectory, path.c_str(), kFlags, 0));
  if (!file.valid()) return system_error(Errc::open_failed, "cannot open");
  std::byte prefix[8];
  if (system.read_at(file.get(), prefix, sizeof prefix, 0) != 8) return system_error(Errc::read_failed, "cannot read");
  const std::int64_t size = os::move_to_end(file.get());
  if (size < 0) return system_error(Errc::read_failed, "cannot find the end");
  const Result<std::uint64_t> length = Header::length(prefix, static_cast<std::uint64_t>(size), parse);
  if (!length) return length.error();
  std::string text(static_cast<std::size_t>(*length), '\0');
  for (std::size_t done = 0; done < text.size();) {
    const std::ptrdiff_t got = system.read_at(file.get(), text.data() + done, text.size() - done, 8 + done);
    if (got < 0) return system_error(Errc::read_failed, "cannot read");
    if (got == 0) return Error{.code = Errc::file_truncated, .path = {}, .message = "the file became shorter"};
    done += static_cast<std::size_t>(got);
  }
  return text;
}

Result<std::string> read_header(const File& file) {
  std::string text(static_cast<std::size_t>(file.header().header_bytes()), '\0');
  for (std::size_t done = 0; done < text.size();) {
    const auto bytes = std::as_writable_bytes(std::span(text).subspan(done));
    const Result<std::size_t> got = file.source().read_at(8 + done, bytes);
    if (!got) return got.error();
    if (*got == 0) return Error{.code = Errc::file_truncated, .path = {}, .message = "the file became shorter"};
    done += *got;
  }
  return text;
}

// The text without the padding.
std::string_view trimmed(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

// On a terminal, one tensor per line and no character that a terminal obeys. Otherwise, the bytes as they are.
void print(Console& console, const std::string& text, bool valid) {
  if (!console.out_is_terminal()) return console.out(text);
  console.out(visible(valid ? pretty_json(text) : std::string(trimmed(text))) + "\n");
}

void print_header_json(Console& console, const std::string& path, const Result<std::string>& text, const Error* error) {
  Json json(console, "header");
  json.field("path", path).field("valid", error == nullptr);
  if (text) json.field("header_bytes", std::uint64_t{text->size()});
  if (error != nullptr) json.error(*error);
  json.line();
  if (text && error == nullptr) {
    json.key("header").raw(visible(pretty_json(*text)));
  } else if (text) {
    json.field("text", *text);
  }
  json.finish();
}

}  // namespace

Exit show_header(const std::string& path, bool as_json, Console& console) {
  const ParseOptions parse;
  std::string refused;
  const Result<File> file = open_file(path, console, parse, &refused, PipeData::part);
  const bool readable = file || format_rule(file.error().code) >= 4;
  const Result<std::string> text = file            ? read_header(*file)
                                   : !readable     ? Result<std::string>(file.error())
                                   : is_pipe(path) ? Result<std::string>(refused)
                                                   : read_refused(file.error().path, parse);
  const Error* error = !file ? &file.error() : !text ? &text.error() : nullptr;
  if (as_json) {
    print_header_json(console, path, text, error);
  } else if (text) {
    print(console, *text, error == nullptr);
  }
  return error == nullptr ? Exit::good : input_error(path, *error, console);
}

}  // namespace safetensors::cli
