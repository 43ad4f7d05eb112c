// Fails system calls in place of the kernel: see support/system_calls.h.
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>

#include "faults/counting.h"
#include "support/system_calls.h"

namespace safetensors::test::faults {
namespace {

// A system call that may fail, and how.
struct Call {
  long number;
  const char* name;
  int path_argument;          // -1: none
  std::array<int, 4> errors;  // 0 ends them
};

constexpr Call kCalls[] = {
    {SYS_openat, "openat", 1, {EMFILE, EACCES, EINTR}},
#ifdef SYS_open
    {SYS_open, "openat", 0, {EMFILE, EACCES, EINTR}},
    {SYS_stat, "stat", 0, {EACCES, ENOMEM}},
    {SYS_lstat, "stat", 0, {EACCES, ENOMEM}},
    {SYS_readlink, "readlinkat", 0, {EACCES, EIO}},
    {SYS_rename, "renameat", 0, {EACCES, ENOSPC, EXDEV}},
    {SYS_unlink, "unlinkat", 0, {EIO}},
    {SYS_getdents, "getdents", -1, {EIO}},
#endif
#ifdef SYS_renameat
    {SYS_renameat, "renameat", 1, {EACCES, ENOSPC, EXDEV}},
#endif
#ifdef SYS_newfstatat
    {SYS_newfstatat, "stat", 1, {EACCES, ENOMEM}},
#endif
    {SYS_renameat2, "renameat", 1, {EACCES, ENOSPC, EXDEV}},
    {SYS_fstat, "stat", -1, {EIO, ENOMEM}},
    {SYS_statx, "stat", 1, {EACCES, ENOMEM}},
    {SYS_fstatfs, "fstatfs", -1, {EIO}},
    {SYS_readlinkat, "readlinkat", 1, {EACCES, EIO}},
    {SYS_unlinkat, "unlinkat", 1, {EIO}},
    {SYS_mkdirat, "mkdirat", 1, {EACCES, ENOSPC}},
    {SYS_linkat, "linkat", 1, {EACCES, ENOSPC}},
    {SYS_getdents64, "getdents", -1, {EIO}},
    {SYS_close, "close", -1, {EIO}},
    {SYS_read, "read", -1, {EIO, EINTR}},
    {SYS_write, "write", -1, {EIO, ENOSPC, EINTR}},
    {SYS_pread64, "pread", -1, {EIO, EINTR}},
    {SYS_preadv, "pread", -1, {EIO, EINTR}},
    {SYS_preadv2, "preadv2", -1, {EIO, EOPNOTSUPP}},
    {SYS_pwrite64, "pwrite", -1, {ENOSPC, EIO, EINTR}},
    {SYS_pwritev, "pwrite", -1, {ENOSPC, EIO, EINTR}},
    {SYS_copy_file_range, "copy_file_range", -1, {EIO, EXDEV, EINTR}},
    {SYS_fallocate, "fallocate", -1, {ENOSPC, EOPNOTSUPP}},
    {SYS_ftruncate, "ftruncate", -1, {EIO, ENOSPC}},
    {SYS_fsync, "fsync", -1, {EIO, ENOSPC}},
    {SYS_fdatasync, "fsync", -1, {EIO, ENOSPC}},
    {SYS_syncfs, "fsync", -1, {EIO}},
    {SYS_sync_file_range, "sync_file_range", -1, {EIO, ESPIPE}},
    {SYS_fchmod, "fchmod", -1, {EPERM}},
    {SYS_fchown, "fchown", -1, {EPERM}},
    {SYS_flock, "flock", -1, {ENOLCK, EWOULDBLOCK, EINTR}},
    {SYS_fcntl, "fcntl", -1, {EMFILE, EBADF}},
    {SYS_dup, "fcntl", -1, {EMFILE}},
    {SYS_fadvise64, "fadvise", -1, {EINVAL}},
    {SYS_mmap, "mmap", -1, {ENOMEM, EPERM}},
    {SYS_mprotect, "mprotect", -1, {ENOMEM}},
    {SYS_mremap, "mremap", -1, {ENOMEM}},
    {SYS_munmap, "munmap", -1, {ENOMEM}},
    {SYS_madvise, "madvise", -1, {ENOMEM, EINVAL, EINTR}},
    {SYS_mincore, "mincore", -1, {EAGAIN, ENOMEM}},
    {SYS_brk, "brk", -1, {ENOMEM}},
    {SYS_clone, "clone", -1, {EAGAIN}},
#ifdef SYS_clone3
    {SYS_clone3, "clone", -1, {EAGAIN}},
#endif
    {SYS_sysinfo, "sysinfo", -1, {EPERM}},
    {SYS_prctl, "prctl", -1, {EINVAL}},
    {SYS_prlimit64, "prlimit64", -1, {EPERM}},
    {SYS_getrandom, "getrandom", -1, {EAGAIN, ENOSYS}},
    {SYS_sched_getaffinity, "sched_getaffinity", -1, {EINVAL}},
    {SYS_getrusage, "getrusage", -1, {EINVAL}},
    {451, "cachestat", -1, {ENOSYS, EPERM}},  // SYS_cachestat, which older headers lack
};

// Without memory of the heap: the thread that waits may hold the heap's lock.
struct Record {
  const Call* known = nullptr;
  seccomp_data call{};
  std::array<char, 256> path{};
  int error_number = 0;
};
std::mutex record_mutex;
Record record;

const Call* find(long number) {
  const auto* const found = std::ranges::find(kCalls, number, &Call::number);
  return found == std::end(kCalls) ? nullptr : found;
}

bool moves_bytes(const seccomp_data& call) {
  return call.nr == SYS_pread64 || call.nr == SYS_pwrite64 || call.nr == SYS_copy_file_range;
}

// Moves a part of the bytes in place of the thread: descriptors and memory are those of the process. If reads and
// writes are direct, the part has whole blocks.
long move_part(const seccomp_data& call) {
  const std::uint64_t size = call.args[call.nr == SYS_copy_file_range ? 4 : 2];
  std::uint64_t part = std::max<std::uint64_t>(size / 2, 1);
  if (part > 65536) part = part / 65536 * 65536;
  if (call.nr == SYS_copy_file_range)
    return ::syscall(call.nr, call.args[0], call.args[1], call.args[2], call.args[3], part, call.args[5]);
  return ::syscall(call.nr, call.args[0], call.args[1], part, call.args[3]);
}

std::size_t variants_of(const Call* known) {
  if (known == nullptr) return 1;
  return static_cast<std::size_t>(std::ranges::find(known->errors, 0) - known->errors.begin());
}

Record note(const seccomp_data& call, const Call* known) {
  Record made{.known = known, .call = call};
  if (known == nullptr || known->path_argument < 0) return made;
  const auto* const path = reinterpret_cast<const char*>(call.args[known->path_argument]);  // NOLINT: of this process
  if (path != nullptr) std::strncpy(made.path.data(), path, made.path.size() - 1);
  return made;
}

bool is_sync(long number) {
  return number == SYS_fsync || number == SYS_fdatasync || number == SYS_syncfs || number == SYS_sync_file_range;
}

std::optional<long> answer(const seccomp_data& call) {
  const Fault fault = chosen();
  const bool countable = fault.kind == Kind::system_call || moves_bytes(call);
  if (!countable || !fail_system_call())
    return is_sync(call.nr) ? std::optional(0L) : std::nullopt;  // nothing has to outlive a power cut here
  const Call* const known = find(call.nr);
  Record made = note(call, known);
  long result = 0;
  if (fault.kind == Kind::system_call) {
    made.error_number = known == nullptr ? EPERM : known->errors[fault.variant % variants_of(known)];
    result = -made.error_number;
    if (call.nr == SYS_close) ::close(static_cast<int>(call.args[0]));  // as the system does all the same
  } else {
    result = move_part(call);
    if (result < 0) result = -errno;
  }
  const std::lock_guard lock(record_mutex);
  record = made;
  return result;
}

}  // namespace

Injected injected() {
  std::unique_lock lock(record_mutex);
  const Record copy = record;
  lock.unlock();
  Injected made;
  made.name = copy.known == nullptr ? "system call " + std::to_string(copy.call.nr) : copy.known->name;
  made.path = copy.path.data();
  made.error_number = copy.error_number;
  made.variants = variants_of(copy.known);
  if (made.name == "openat") made.flags = copy.call.args[copy.known->path_argument + 1];
  made.anonymous = made.name == "mmap" && (copy.call.args[3] & MAP_ANONYMOUS) != 0;
  return made;
}

std::string run_supervised(const std::function<void()>& body) {
  return test::run_supervised(body, answer);
}

}  // namespace safetensors::test::faults
