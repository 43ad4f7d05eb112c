// A supervisor thread answers the notifications of the filter.
#include "support/system_calls.h"

#include <linux/filter.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

namespace safetensors::test {
namespace {

// Waiting, ending and identity: these do not fail, or a thread could not go on.
constexpr long kAllowed[] = {
    SYS_futex,          SYS_exit,        SYS_exit_group,      SYS_rt_sigreturn,
    SYS_rt_sigprocmask, SYS_sched_yield, SYS_clock_gettime,   SYS_clock_nanosleep,
    SYS_gettid,         SYS_getpid,      SYS_set_robust_list, SYS_nanosleep,
#ifdef SYS_rseq
    SYS_rseq,
#endif
};

thread_local int asking = 0;

void supervise(const std::atomic<int>& listener, const Answer& answer) {
  while (listener.load() == -1) std::this_thread::yield();
  // The kernel's structs may be larger than those that are known here.
  alignas(seccomp_notif) std::array<unsigned char, 4096> room;
  pollfd waited{listener.load(), POLLIN, 0};
  while (waited.fd >= 0) {
    if (::poll(&waited, 1, -1) < 0) continue;
    if ((waited.revents & (POLLHUP | POLLERR)) != 0) break;  // the last thread has ended
    room.fill(0);
    auto& asked = *reinterpret_cast<seccomp_notif*>(room.data());
    if (::ioctl(waited.fd, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) continue;
    alignas(seccomp_notif_resp) std::array<unsigned char, 4096> reply{};
    auto& made = *reinterpret_cast<seccomp_notif_resp*>(reply.data());
    made.id = asked.id;
    asking = static_cast<int>(asked.pid);
    if (const std::optional<long> result = answer(asked.data); !result)
      made.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    else if (*result < 0)
      made.error = static_cast<int>(*result);
    else
      made.val = *result;
    (void)::ioctl(waited.fd, SECCOMP_IOCTL_NOTIF_SEND, reply.data());
  }
}

// A listener for the calls of this thread, or -1.
int install_filter() {
  std::vector<sock_filter> program;
  program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  for (const long number : kAllowed) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
  const sock_fprog whole{static_cast<unsigned short>(program.size()), program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &whole));
}

}  // namespace

int asking_thread() noexcept {
  return asking;
}

std::string run_supervised(const std::function<void()>& body, const Answer& answer) {
  std::atomic<int> listener{-1};
  std::string refused;
  std::thread supervisor([&] { supervise(listener, answer); });
  std::thread supervised([&] {
    const int made = install_filter();
    if (made < 0) refused = std::string("seccomp user notifications are refused: ") + std::strerror(errno);
    listener = made < 0 ? -2 : made;
    if (made >= 0) body();
  });
  supervised.join();
  supervisor.join();
  if (listener.load() >= 0) ::close(listener.load());
  return refused;
}

}  // namespace safetensors::test
