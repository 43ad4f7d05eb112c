// A file that a command makes: it appears whole, or not at all.
#pragma once

#include <safetensors/error.h>

#include <sys/types.h>
#include <string>
#include <string_view>
#include <utility>

namespace safetensors::cli {

// Written beside its path; commit() puts it in place. Without commit() nothing is left. A new file has no name before
// that where the file system can (O_TMPFILE). Else it is a temporary as the library's are: a process that is killed
// leaves it, and `clean` finds it. An Interrupt that catches a signal fails the next call with Errc::cancelled.
class NewFile {
 public:
  // Whether something other than a regular file stands at path, or, without replace, anything: errors as create().
  [[nodiscard]] static Status check(const std::string& path, bool replace);

  // replace: whether a file at path may be replaced; symlinks are followed.
  // Errors: open_failed, not_regular_file; Errc::invalid_argument: it exists and replace is false.
  [[nodiscard]] static Result<NewFile> create(const std::string& path, bool replace);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  // Errors: write_failed, cancelled.
  [[nodiscard]] Status write(std::string_view bytes);
  // Makes it durable and visible. Errors: sync_failed, replace_failed, cancelled, and invalid_argument as above.
  [[nodiscard]] Status commit();

 private:
  NewFile(std::string target, bool replace) : target_(std::move(target)), replace_(replace) {}
  [[nodiscard]] Status open_named(mode_t mode);
  [[nodiscard]] int link_as(const std::string& name) const;
  [[nodiscard]] Status name_it(int number);

  std::string target_;
  std::string temporary_;  // empty: the file has no name
  int descriptor_ = -1;
  bool replace_;
};

}  // namespace safetensors::cli
