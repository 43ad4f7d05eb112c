// Signals of child processes.
#include "os/command/command.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "support/io_support.h"

namespace safetensors::os {
namespace {

using test::in_child;

TEST(NotedSignals, EndProcessOnlyInDestructor) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EQ(in_child([number] {
                (void)std::signal(number, SIG_DFL);
                const NotedSignals signals;
                if (NotedSignals::came()) ::_exit(2);
                (void)std::raise(number);
                if (!NotedSignals::came()) ::_exit(3);
                return true;
              }),
              1000 + number);
  }
}

TEST(NotedSignals, LeaveIgnoredSignalsAndRestoreHandlers) {
  EXPECT_EQ(in_child([] {
              (void)std::signal(SIGHUP, SIG_IGN);
              (void)std::signal(SIGINT, SIG_DFL);
              {
                const NotedSignals signals;
                (void)std::raise(SIGHUP);
                if (NotedSignals::came()) return false;
              }
              return std::signal(SIGINT, SIG_DFL) == SIG_DFL && std::signal(SIGHUP, SIG_DFL) == SIG_IGN;
            }),
            0);
}

TEST(WriteSignals, BecomeErrors) {
  const test::TemporaryDirectory directory;
  const std::string path = directory / "file";
  EXPECT_EQ(in_child([&] {
              ignore_write_signals();
              int ends[2];
              if (::pipe2(ends, O_CLOEXEC) != 0) return false;
              ::close(ends[0]);
              if (::write(ends[1], "x", 1) != -1 || errno != EPIPE) return false;
              const rlimit limit{0, 0};
              const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
              return ::setrlimit(RLIMIT_FSIZE, &limit) == 0 && ::write(file, "x", 1) == -1 && errno == EFBIG;
            }),
            0);
}

TEST(WriteSignals, EndProcessByBrokenPipe) {
  EXPECT_EQ(in_child([] {
              ignore_write_signals();
              end_by_broken_pipe();
              return true;
            }),
            1000 + SIGPIPE);
}

}  // namespace
}  // namespace safetensors::os
