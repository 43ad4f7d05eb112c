// An output file of a command. It appears complete or not at all.
#pragma once

#include "arguments.h"

#include <safetensors/error.h>
#include <safetensors/writer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "io/atomic_file.h"

namespace safetensors::cli {

// The options of a write by the library: --durability, the progress on the console, which must outlive them, and
// in_place_if_no_rename, if the environment variable SAFETENSORS_IN_PLACE_IF_NO_RENAME is "1".
[[nodiscard]] WriteOptions write_options(const Arguments& given, Console& console);

// The library's AtomicFile. After an Interrupt has caught a signal, the next call fails with Errc::cancelled.
class NewFile {
 public:
  // Fails like create() if path is not a regular file, if it exists and replace is false, or if its folder is missing.
  [[nodiscard]] static Status check(const std::string& path, bool replace);

  // replace: whether to replace a file that exists at path. Symlinks are followed. Errors: open_failed,
  // not_regular_file, invalid_argument if the file exists and replace is false.
  [[nodiscard]] static Result<NewFile> create(const std::string& path, bool replace);

  // Errors: write_failed, cancelled.
  [[nodiscard]] Status write(std::string_view bytes);
  // Makes the file durable and visible. Errors: sync_failed, replace_failed, cancelled.
  [[nodiscard]] Status commit();

 private:
  explicit NewFile(std::unique_ptr<io::AtomicFile> file) : file_(std::move(file)) {}

  std::unique_ptr<io::AtomicFile> file_;
  std::uint64_t size_ = 0;  // bytes written
};

}  // namespace safetensors::cli
