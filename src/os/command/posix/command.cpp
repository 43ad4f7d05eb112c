// Forwards most functions to one system call.
//
// A handler of a signal only stores the signal's number, so it may run at any time and on any thread, including threads
// of the library. SA_RESTART: no system call of the library or of the C library is interrupted.
#include "os/command/command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>

#include "os/open.h"

namespace safetensors::os {
namespace {

constexpr std::array kEnding = {SIGINT, SIGTERM, SIGHUP};

volatile std::sig_atomic_t noted_signal = 0;
std::array<struct sigaction, kEnding.size()> handlers_before;  // of the one NotedSignals

extern "C" void note_signal(int number) {
  noted_signal = number;
}

}  // namespace

std::vector<std::string> process_arguments(int argc, char** argv) {
  return {argv + std::min(argc, 1), argv + argc};
}

void ignore_write_signals() noexcept {
  (void)::signal(SIGPIPE, SIG_IGN);
  (void)::signal(SIGXFSZ, SIG_IGN);
}

void end_by_broken_pipe() noexcept {
  (void)::signal(SIGPIPE, SIG_DFL);
  (void)::raise(SIGPIPE);
}

NotedSignals::NotedSignals() noexcept {
  struct sigaction note {};
  note.sa_handler = note_signal;
  note.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kEnding.size(); ++i) {
    ::sigaction(kEnding[i], nullptr, &handlers_before[i]);
    if (handlers_before[i].sa_handler != SIG_IGN) ::sigaction(kEnding[i], &note, nullptr);
  }
}

NotedSignals::~NotedSignals() {
  for (std::size_t i = 0; i < kEnding.size(); ++i) ::sigaction(kEnding[i], &handlers_before[i], nullptr);
  if (came()) (void)::raise(noted_signal);
}

bool NotedSignals::came() noexcept {
  return noted_signal != 0;
}

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

bool has_offsets(int descriptor) noexcept {
  return ::lseek(descriptor, 0, SEEK_CUR) >= 0;
}

// Removes the name of a new file at once on a file system without O_TMPFILE.
Descriptor make_unnamed_file(const std::string& folder) {
  constexpr OpenFlags kFlags = OpenFlags::read | OpenFlags::write | OpenFlags::unnamed;
  Descriptor made(open_at(kWorkingDirectory, folder.c_str(), kFlags, 0600));
  if (made.valid()) return made;
  std::string name = folder + "/safetensors-XXXXXX";
  made = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (made.valid()) ::unlink(name.c_str());
  return made;
}

}  // namespace safetensors::os
