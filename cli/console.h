// Where a command writes: data to standard output through a buffer, messages to standard error.
#pragma once

#include "exit_code.h"

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace safetensors::cli {

class Console {
 public:
  Console();

  // Data. After a failure to write, which finish() tells, everything more is dropped. A reader that went away ends
  // the process as SIGPIPE does.
  void out(std::string_view text) {
    buffer_.append(text);
    if (buffer_.size() >= kBufferBytes) flush();
  }
  // A line above what belongs to one of several things; an empty line before it, but not before the first.
  void heading(std::string_view text);
  void flush();
  // Whether standard output still takes data: a long loop stops when it does not.
  [[nodiscard]] bool writable() const { return os_error_ == 0; }
  // Flushes; says so and returns Exit::system if anything could not be written, else code.
  [[nodiscard]] Exit finish(Exit code);

  // "safetensors: text". text must already be safe to show.
  void message(std::string_view text);
  // "safetensors: path: message (byte 17, rule 6)"; returns the exit code that the error comes to.
  Exit error(std::string_view path, const Error& error);
  // "safetensors ls: text", and where to read more.
  Exit usage(std::string_view command, std::string_view text);

  // How far a long transfer is: one line that is drawn over, only on a terminal. The last call has done == total.
  void progress(std::uint64_t done, std::uint64_t total);

  [[nodiscard]] bool out_is_terminal() const { return out_is_terminal_; }
  // The width of the terminal that standard output is; 0: it is no terminal, or the width is unknown.
  [[nodiscard]] std::size_t columns() const { return columns_; }
  // text in a colour where standard output shows colours, else as it is.
  [[nodiscard]] std::string green(std::string_view text) const;
  [[nodiscard]] std::string red(std::string_view text) const;

 private:
  static constexpr std::size_t kBufferBytes = 64 << 10;

  std::string buffer_;
  int os_error_ = 0;
  bool has_heading_ = false;
  bool out_is_terminal_;
  std::size_t columns_;
  bool err_is_terminal_;
  bool colors_;
  int shown_percent_ = -1;
};

// What an errno means, in the style of the library's messages: "no space left on device".
[[nodiscard]] std::string system_text(int number);

// "message (byte 17, rule 6)": what there is of it.
[[nodiscard]] std::string describe(const Error& error);

}  // namespace safetensors::cli
