// A file that a command makes: it appears whole, or not at all.
#pragma once

#include <safetensors/error.h>

#include <string>
#include <string_view>

namespace safetensors::cli {

// Written beside its path under a temporary name; commit() puts it in place. Without commit(), also when a signal
// ends the process, nothing is left. One at a time.
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

  // Error: write_failed.
  [[nodiscard]] Status write(std::string_view bytes);
  // Makes it durable and visible. Errors: write_failed, sync_failed, replace_failed, and invalid_argument as above.
  [[nodiscard]] Status commit();

 private:
  NewFile(std::string target, std::string temporary, int descriptor, bool replace);

  std::string target_;
  std::string temporary_;
  int descriptor_;
  bool replace_;
};

}  // namespace safetensors::cli
