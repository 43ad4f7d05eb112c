// Runs a function in a child process, sees its system calls, and kills it before one of them.
#pragma once

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>

namespace safetensors::test {

// The fate of a traced child.
struct Traced {
  bool killed = false;  // false: the child ended before
  int calls = 0;        // number of calls that were seen, without the one it was killed before
};

// Runs `body` in a child, and sees its calls of `kinds`. Kills it before the call number `last`; -1: never. nullopt:
// processes cannot be traced here. Only the thread that calls body() is seen.
inline std::optional<Traced> trace_child(const std::set<std::uint64_t>& kinds, int last,
                                         const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(77);
    ::raise(SIGSTOP);
    body();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) return std::nullopt;
  constexpr long kOptions = PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
  bool traced = ::ptrace(PTRACE_SETOPTIONS, child, nullptr, kOptions) == 0;
  Traced result;
  while (traced) {
    if (::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) != 0) break;
    if (::waitpid(child, &status, 0) != child || WIFEXITED(status) || WIFSIGNALED(status)) return result;
    if (!WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
    __ptrace_syscall_info info{};
    const auto request = static_cast<__ptrace_request>(PTRACE_GET_SYSCALL_INFO);
    traced = ::ptrace(request, child, sizeof info, &info) > 0;
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY || !kinds.contains(info.entry.nr)) continue;
    if (result.calls == last) break;
    ++result.calls;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  result.killed = true;
  return traced ? std::optional(result) : std::nullopt;
}

}  // namespace safetensors::test
