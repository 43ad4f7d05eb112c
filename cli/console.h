// The output of a command: data goes to standard output through a buffer, messages go to standard error.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace safetensors::cli {

// With several paths the highest code is returned. A usage error ends a command before its first path.
enum class Exit : int {
  good = 0,
  negative = 1,  // an invalid file, or a name that is not in it
  usage = 2,     // the command line is invalid
  system = 3,    // an error of the system: cannot open, read or write
};

// The exit code for an error of the library.
inline Exit exit_of(const Error& error) {
  if (is_system_error(error.code) || error.code == Errc::unsupported || error.os_error != 0) return Exit::system;
  if (error.code == Errc::slice_syntax || error.code == Errc::slice_step) return Exit::usage;
  return Exit::negative;
}

class Console {
 public:
  Console();

  // Writes data. After a failed write all further data is dropped, and finish() reports the error. A closed pipe ends
  // the process as SIGPIPE does.
  void out(std::string_view text) {
    buffer_.append(text);
    if (buffer_.size() >= kBufferBytes) flush();
  }
  // Writes the heading of one of several sections, with an empty line before all but the first.
  void heading(std::string_view text);
  void flush();
  // Returns false if a write to standard output has failed. A long loop should then stop.
  [[nodiscard]] bool writable() const { return os_error_ == 0; }
  // Flushes. If a write has failed, reports it and returns Exit::system, otherwise returns code.
  [[nodiscard]] Exit finish(Exit code);

  // Writes "safetensors: text", on a terminal in lines that fit. The caller has escaped text for display.
  void message(std::string_view text);
  // Writes "safetensors: path: message (byte 17, rule 6)" and returns the exit code for the error.
  Exit error(std::string_view path, const Error& error);
  // Writes "safetensors ls: text" and a hint about --help.
  Exit usage(std::string_view command, std::string_view text);

  // Shows the progress of a long transfer in one line that is redrawn, on a terminal only. The last call has done ==
  // total, or comes after a signal, and removes the line. All other output to a terminal removes it, too.
  void progress(std::uint64_t done, std::uint64_t total);

  [[nodiscard]] bool out_is_terminal() const { return out_is_terminal_; }
  // The width of the terminal on standard output. 0: it is not a terminal, or its width is unknown.
  [[nodiscard]] std::size_t columns() const { return columns_; }
  // Writes a line of text. On a terminal that is too narrow for it, it goes on in lines with `indent` spaces before
  // them.
  void line(std::string_view text, std::size_t indent);
  // Returns text in a colour if standard output shows colours, otherwise unchanged.
  [[nodiscard]] std::string green(std::string_view text) const { return colored(text, 32); }
  [[nodiscard]] std::string red(std::string_view text) const { return colored(text, 31); }

 private:
  static constexpr std::size_t kBufferBytes = 64 << 10;

  [[nodiscard]] std::string colored(std::string_view text, int color) const;
  void remove_progress();
  void write_message(std::string_view text);

  std::string buffer_;
  int os_error_ = 0;
  bool has_heading_ = false;
  bool out_is_terminal_;
  std::size_t columns_;
  bool err_is_terminal_;
  bool colors_;
  int shown_percent_ = -1;
  std::size_t progress_width_ = 0;  // of the line of progress that the terminal shows
};

// Writes all of text to a descriptor. Returns 0 or errno.
[[nodiscard]] int write_all(int descriptor, std::string_view text);

// An error of the library's kind. path: of the file at fault, if it is not the one that the caller names.
[[nodiscard]] Error fault(Errc code, std::string message, std::string path = {});

// Returns "message (byte 17, rule 6)", without the parts that the error lacks.
[[nodiscard]] std::string describe(const Error& error);

}  // namespace safetensors::cli
