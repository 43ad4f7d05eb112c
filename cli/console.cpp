// Output through write() with a 64 KiB buffer, so that every failed write is noticed. SIGPIPE is ignored while the
// command runs: flush() sees EPIPE and then ends the process by that signal.
#include "console.h"

#include "interrupt.h"
#include "text/text.h"

#include "os/command/command.h"
#include "os/system_error.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace safetensors::cli {
namespace {

bool colors_wanted() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return (no_color == nullptr || *no_color == '\0') && terminal != nullptr && std::strcmp(terminal, "dumb") != 0;
}

}  // namespace

int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const std::ptrdiff_t written = os::write_next(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

Console::Console()
    : out_is_terminal_(os::is_terminal(os::kStandardOutput)),
      columns_(out_is_terminal_ ? os::terminal_columns(os::kStandardOutput) : 0),
      err_is_terminal_(os::is_terminal(os::kStandardError)),
      colors_(out_is_terminal_ && colors_wanted()) {}

void Console::heading(std::string_view text) {
  if (has_heading_) out("\n");
  has_heading_ = true;
  out(text);
  out("\n");
}

void Console::flush() {
  if (!buffer_.empty() && out_is_terminal_) remove_progress();
  if (os_error_ == 0) os_error_ = write_all(os::kStandardOutput, buffer_);
  buffer_.clear();
  if (os_error_ == EPIPE) os::end_by_broken_pipe();
}

Exit Console::finish(Exit code) {
  flush();
  remove_progress();
  if (os_error_ == 0) return code;
  message(formatted("cannot write to standard output: {}", os::describe_errno(os_error_)));
  return Exit::system;
}

void Console::line(std::string_view text, std::size_t indent) {
  out(wrap_words(text, columns_, indent));
  out("\n");
}

void Console::message(std::string_view text) {
  write_message(formatted("safetensors: {}\n", text));
}

void Console::write_message(std::string_view text) {
  constexpr std::size_t kIndent = 2;
  flush();
  remove_progress();
  (void)write_all(os::kStandardError,
                  wrap_words(text, err_is_terminal_ ? os::terminal_columns(os::kStandardError) : 0, kIndent));
}

Exit Console::error(std::string_view path, const Error& error) {
  message(formatted("{}: {}", printable(path), describe(error)));
  return exit_of(error);
}

Exit Console::usage(std::string_view command, std::string_view text) {
  write_message(formatted("safetensors {0}: {1}\nTry 'safetensors {0} --help'.\n", command, text));
  return Exit::usage;
}

void Console::progress(std::uint64_t done, std::uint64_t total) {
  constexpr std::uint64_t kMinShownBytes = 64 << 20;
  if (!err_is_terminal_ || total < kMinShownBytes) return;
  if (done == total || Interrupt::caught()) return remove_progress();
  const int percent = static_cast<int>(done / (total / 100));
  if (percent == shown_percent_) return;
  shown_percent_ = percent;
  std::string text = formatted("{:3}%  {} of {}", std::min(percent, 100), size_text(done), size_text(total));
  const std::size_t width = text.size();
  if (width < progress_width_) text.append(progress_width_ - width, ' ');
  progress_width_ = width;
  (void)write_all(os::kStandardError, "\r" + text);
}

void Console::remove_progress() {
  shown_percent_ = -1;
  if (progress_width_ == 0) return;
  (void)write_all(os::kStandardError, formatted("\r{:{}}\r", "", std::exchange(progress_width_, 0)));
}

std::string Console::colored(std::string_view text, int color) const {
  return colors_ ? formatted("\x1b[{}m{}\x1b[0m", color, text) : std::string(text);
}

Error fault(Errc code, std::string message, std::string path) {
  return {.code = code, .path = std::move(path), .message = std::move(message)};
}

std::string describe(const Error& error) {
  const int rule = format_rule(error.code);
  std::string where = error.offset == Error::kNoOffset ? "" : formatted("byte {}", error.offset);
  if (rule != 0) where += formatted("{}rule {}", where.empty() ? "" : ", ", rule);
  return where.empty() ? error.message : formatted("{} ({})", error.message, where);
}

}  // namespace safetensors::cli
