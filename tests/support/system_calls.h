// Answers the system calls of a thread in place of the kernel, by a seccomp filter. This needs no privileges, and it
// sees every call to the kernel, even calls that the C library makes by itself. Only for Linux.
#pragma once

#include <linux/seccomp.h>

#include <functional>
#include <optional>
#include <string>

namespace safetensors::test {

// Returns the result of a system call, or a negative error number. nullopt: the kernel makes the call. Runs on another
// thread of this process while the calling thread waits, so descriptors and memory are those of the call. It must not
// use the heap if the calling thread may hold its lock.
using Answer = std::function<std::optional<long>(const seccomp_data& call)>;

// Returns the thread whose call is being answered.
[[nodiscard]] int asking_thread() noexcept;

// Runs body on a thread whose calls, and those of the threads that it starts, get the answers, and waits for it. Calls
// that wait, end a thread or ask who it is are not answered. body must start no process. Returns why that is impossible
// here, or "".
[[nodiscard]] std::string run_supervised(const std::function<void()>& body, const Answer& answer);

}  // namespace safetensors::test
