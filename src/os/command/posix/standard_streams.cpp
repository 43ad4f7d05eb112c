// Forwards each function to one system call, except for fill_standard_descriptors().
#include "os/command/standard_streams.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace safetensors::os {

bool is_terminal(int descriptor) noexcept {
  return ::isatty(descriptor) == 1;
}

std::size_t terminal_columns(int descriptor) noexcept {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void fill_standard_descriptors() noexcept {
  for (int descriptor = kStandardInput; descriptor <= kStandardError; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) != -1) continue;
    (void)::open("/dev/null", descriptor == kStandardInput ? O_WRONLY : O_RDONLY);
  }
}

std::ptrdiff_t read_next(int descriptor, void* bytes, std::size_t size) noexcept {
  return ::read(descriptor, bytes, size);
}

std::ptrdiff_t write_next(int descriptor, const void* bytes, std::size_t size) noexcept {
  return ::write(descriptor, bytes, size);
}

int wait_to_read(int descriptor, int milliseconds) noexcept {
  struct pollfd waiting {
    descriptor, POLLIN, 0
  };
  return ::poll(&waiting, 1, milliseconds);
}

std::int64_t position_of(int descriptor) noexcept {
  return ::lseek(descriptor, 0, SEEK_CUR);
}

std::int64_t move_to_end(int descriptor) noexcept {
  return ::lseek(descriptor, 0, SEEK_END);
}

}  // namespace safetensors::os
