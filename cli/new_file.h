// An output file of a command. It appears complete or not at all.
#pragma once

#include <safetensors/error.h>

#include <sys/types.h>
#include <string>
#include <string_view>
#include <utility>

namespace safetensors::cli {

// The file is written in the directory of its path, and commit() puts it in place. Without commit() nothing remains.
// Until then a new file has no name, if the file system supports that (O_TMPFILE). Otherwise it is a temporary like
// those of the library: a killed process leaves it behind, and `clean` finds it. After an Interrupt has caught a
// signal, the next call fails with Errc::cancelled.
class NewFile {
 public:
  // Fails like create() if path is not a regular file, or if it exists and replace is false.
  [[nodiscard]] static Status check(const std::string& path, bool replace);

  // replace: whether to replace a file that exists at path. Symlinks are followed. Errors: open_failed,
  // not_regular_file, invalid_argument if the file exists and replace is false.
  [[nodiscard]] static Result<NewFile> create(const std::string& path, bool replace);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  // Errors: write_failed, cancelled.
  [[nodiscard]] Status write(std::string_view bytes);
  // Makes the file durable and visible. Errors: sync_failed, replace_failed, cancelled, and invalid_argument as above.
  [[nodiscard]] Status commit();

 private:
  NewFile(std::string target, bool replace) : target_(std::move(target)), replace_(replace) {}
  [[nodiscard]] Status open_named(mode_t mode);
  [[nodiscard]] int link_as(const std::string& name) const;
  [[nodiscard]] Status name_it(int error_number);

  std::string target_;
  std::string temporary_;  // empty: the file has no name
  int descriptor_ = -1;
  bool replace_;
};

}  // namespace safetensors::cli
