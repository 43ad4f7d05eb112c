// The words for files that are not regular.
#include "os/file_status.h"

namespace safetensors::os {

const char* describe_irregular(FileKind kind) noexcept {
  switch (kind) {
    case FileKind::regular:
      return nullptr;
    case FileKind::directory:
      return "a directory";
    case FileKind::fifo:
      return "a FIFO";
    case FileKind::character_device:
      return "a character device";
    case FileKind::block_device:
      return "a block device";
    case FileKind::socket:
      return "a socket";
    case FileKind::symlink:
      return "a symbolic link";
    case FileKind::unknown:
      break;
  }
  return "something unknown";
}

}  // namespace safetensors::os
