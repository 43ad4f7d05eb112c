// The words for files that are not regular.
#include "os/file_status.h"

#include <cstddef>

namespace safetensors::os {

// In the order of FileKind.
const char* describe_irregular(FileKind kind) noexcept {
  static constexpr const char* kTexts[] = {"something unknown", nullptr,   "a directory",
                                           "a symbolic link",   "a FIFO",  "a character device",
                                           "a block device",    "a socket"};
  return kTexts[static_cast<std::size_t>(kind)];
}

}  // namespace safetensors::os
