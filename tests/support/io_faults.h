// System calls that fail when the test says so.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "support/sanitizers.h"
#include "support/system_calls.h"

namespace safetensors::test {

// The alignment that statx() tells. 0: the file does not support O_DIRECT.
struct ToldAlignment {
  bool known = false;
  std::uint32_t memory = 0, offset = 0;
};

// Arguments of a system call.
inline int descriptor_of(std::uint64_t argument) {
  return static_cast<int>(argument);
}
inline void* pointer_of(std::uint64_t argument) {
  return reinterpret_cast<void*>(argument);
}  // NOLINT
inline std::string_view text_of(std::uint64_t argument) {
  const auto* const text = static_cast<const char*>(pointer_of(argument));
  return text == nullptr ? std::string_view() : text;
}

// Whether the headers of the system have the alignment that statx() tells. Those of musl may lack it.
#ifdef STATX_DIOALIGN
constexpr bool kAlignmentIsTold = true;
#else
constexpr bool kAlignmentIsTold = false;
#endif

// Whether statx() asks for the alignment.
inline bool asks_alignment(const seccomp_data& call) {
#ifdef STATX_DIOALIGN
  return call.nr == SYS_statx && call.args[3] == STATX_DIOALIGN;
#else
  (void)call;
  return false;
#endif
}
inline long tell(const ToldAlignment& alignment, const seccomp_data& call) {
#ifdef STATX_DIOALIGN
  auto& status = *static_cast<struct statx*>(pointer_of(call.args[4]));
  status = {};
  status.stx_mask = alignment.known ? STATX_DIOALIGN : 0;
  status.stx_dio_mem_align = alignment.memory;
  status.stx_dio_offset_align = alignment.offset;
#else
  (void)alignment, (void)call;
#endif
  return 0;
}

// Names in fixed memory: the thread that waits may hold the lock of the heap.
class NameList {
 public:
  void add(std::string_view name) {
    if (size_ == names_.size()) return;
    name.copy(names_[size_++].data(), names_[0].size() - 1);
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::string operator[](std::size_t index) const { return names_.at(index).data(); }

 private:
  std::array<std::array<char, 64>, 256> names_{};
  std::size_t size_ = 0;
};

// The failures that a test orders. Counts the calls. The supervisor answers one call at a time.
class FaultySystem {
 public:
  int write_errno = 0, copy_errno = 0, preallocate_errno = 0, writeback_errno = 0;
  int file_sync_errno = 0, directory_sync_errno = 0, file_system_sync_errno = 0;
  int close_errno = 0, mode_errno = 0, owner_errno = 0, rename_errno = 0;
  std::size_t longest_write = ~std::size_t{0};
  int interruptions = 0;    // so many writes and copies say EINTR first
  int name_collisions = 0;  // so many temporaries are said to exist already
  int writes_before_failure = 0, links_before_failure = 0;
  int file_syncs = 0, directory_syncs = 0, file_system_syncs = 0, preallocations = 0, writebacks = 0, renames = 0;
  int copies = 0;  // by the system
  int direct_open_errno = 0, direct_write_errno = 0;
  int direct_writes_before_failure = 0, direct_writes = 0;
  std::size_t longest_direct_report = ~std::size_t{0};  // what a direct write says at most, having written all
  std::optional<ToldAlignment> alignment;
  int alignment_errno = 0;
  NameList made;            // names of new files
  int opened = 0;           // files, to write to them
  std::size_t writers = 0;  // threads that have written
  int most_at_once = 0;     // threads between a write and their next call
  bool unlistable = false;  // directories can only be searched
  // These may use the heap: no thread makes such a call while it holds the lock of the heap.
  std::function<void()> before_rename = [] {};
  std::function<void()> before_link = [] {};
  std::function<void()> before_lock = [] {};
  std::function<void()> before_overwrite = [] {};  // before an old file is opened to write to it
  int unnamed_errno = 0;                           // of making a file without a name
  int truncate_errno = 0;                          // of opening a file to overwrite it
  int link_errno = 0, links = 0;
  int lock_errno = 0, locks_before_success = 1'000'000;  // so many locks fail
  int locks = 0;
  int duplicate_errno = 0;
  std::string closed_name;  // a file of this name cannot be opened
  std::string fixed_name;   // a file of this name cannot be removed
  bool no_proc = false;
  bool remote = false;  // all file systems are said to be those of a network

  std::optional<long> answer(const seccomp_data& call) {
    note_thread(call.nr == SYS_pwrite64);
    const auto* const args = call.args;
    switch (call.nr) {
      case SYS_openat:
        return open(text_of(args[1]), static_cast<int>(args[2]));
      case SYS_close:
        if (close_errno == 0) return std::nullopt;
        return ::close(descriptor_of(args[0])), -close_errno;
      case SYS_pwrite64:
        return write(descriptor_of(args[0]), pointer_of(args[1]), args[2], static_cast<off_t>(args[3]));
      case SYS_copy_file_range:
        ++copies;
        if (interruptions > 0) return --interruptions, -EINTR;
        return failed(copy_errno);
      case SYS_fallocate:
        return ++preallocations, failed(preallocate_errno);
      case SYS_sync_file_range:
        return ++writebacks, failed(writeback_errno);
      case SYS_fsync:
        return sync(descriptor_of(args[0]));
      case SYS_syncfs:
        return ++file_system_syncs, -file_system_sync_errno;
      case SYS_fchmod:
        return failed(mode_errno);
      case SYS_fchown:
        return failed(owner_errno);
      default:
        return answer_names(call);
    }
  }

 private:
  // Calls about names, locks and the kind of a file.
  std::optional<long> answer_names(const seccomp_data& call) {
    const auto* const args = call.args;
    switch (call.nr) {
#ifdef SYS_renameat
      case SYS_renameat:
#endif
      case SYS_renameat2:
        ++renames;
        before_rename();
        return failed(rename_errno);
      case SYS_linkat:
        ++links;
        before_link();
        return failed(link_errno != 0 && links_before_failure-- <= 0 ? link_errno : 0);
      case SYS_unlinkat:
        return failed(text_of(args[1]) == fixed_name ? EPERM : 0);
      case SYS_flock:
        if ((args[1] & LOCK_EX) == 0) return std::nullopt;
        ++locks;
        before_lock();
        return failed(lock_errno != 0 && locks_before_success-- > 0 ? lock_errno : 0);
      case SYS_fcntl:
        return failed(args[1] == F_DUPFD_CLOEXEC ? duplicate_errno : 0);
      case SYS_fstatfs:
        return remote ? tell_remote(descriptor_of(args[0]), pointer_of(args[1])) : std::nullopt;
      case SYS_statx:
        if (!asks_alignment(call)) return std::nullopt;
        if (alignment_errno != 0) return -alignment_errno;
        return alignment ? std::optional(tell(*alignment, call)) : std::nullopt;
#ifdef SYS_stat
      case SYS_stat:
        return failed(no_proc && text_of(args[0]).starts_with("/proc/self/fd/") ? ENOENT : 0);
#endif
#ifdef SYS_newfstatat
      case SYS_newfstatat:
        return failed(no_proc && text_of(args[1]).starts_with("/proc/self/fd/") ? ENOENT : 0);
#endif
      default:
        return std::nullopt;
    }
  }

  static std::optional<long> failed(int number) {
    return number == 0 ? std::nullopt : std::optional<long>(-number);
  }

  std::optional<long> open(std::string_view name, int flags) {
    if ((flags & O_DIRECT) != 0 && direct_open_errno != 0) return -direct_open_errno;
    if ((flags & O_TMPFILE) == O_TMPFILE && unnamed_errno != 0) return -unnamed_errno;
    if ((flags & O_TRUNC) != 0 && (flags & (O_EXCL | O_NOFOLLOW)) == O_NOFOLLOW && truncate_errno != 0)
      return -truncate_errno;
    if (name == closed_name || (unlistable && (flags & (O_TMPFILE | O_PATH)) == O_DIRECTORY)) return -EACCES;
    if ((flags & O_ACCMODE) == O_RDONLY) return std::nullopt;
    ++opened;
    if ((flags & (O_CREAT | O_TMPFILE | O_DIRECT)) == 0) before_overwrite();
    if ((flags & O_EXCL) == 0) return std::nullopt;
    made.add(name);
    if (name_collisions > 0) return --name_collisions, -EEXIST;
    return std::nullopt;
  }
  std::optional<long> write(int descriptor, const void* bytes, std::size_t size, off_t offset) {
    const bool direct = (::fcntl(descriptor, F_GETFL) & O_DIRECT) != 0;
    if (direct) ++direct_writes;
    if (interruptions > 0) return --interruptions, -EINTR;
    if (write_errno != 0 && writes_before_failure-- <= 0) return -write_errno;
    if (direct && direct_write_errno != 0 && direct_writes_before_failure-- <= 0) return -direct_write_errno;
    const std::size_t longest_report = direct ? longest_direct_report : ~std::size_t{0};
    if (size <= std::min(longest_write, longest_report)) return std::nullopt;
    const ssize_t count = ::pwrite(descriptor, bytes, std::min(size, longest_write), offset);
    return count < 0 ? -errno : std::min(count, static_cast<ssize_t>(std::min(longest_report, size)));
  }
  std::optional<long> sync(int descriptor) {
    struct stat status;
    const bool directory = ::fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode);
    ++(directory ? directory_syncs : file_syncs);
    return -(directory ? directory_sync_errno : file_sync_errno);
  }
  // A thread that has ended has made a call after its last write: it gives back its stack.
  void note_thread(bool writes) {
    const auto end = threads_.begin() + static_cast<std::ptrdiff_t>(writers);
    const auto found = std::find(threads_.begin(), end, asking_thread());
    if (found == end && (!writes || writers == threads_.size())) return;
    if (found == end) threads_[writers++] = asking_thread();
    writing_[static_cast<std::size_t>(found - threads_.begin())] = writes;
    most_at_once = std::max(most_at_once, static_cast<int>(std::count(writing_.begin(), writing_.end(), true)));
  }
  static std::optional<long> tell_remote(int descriptor, void* result) {
    auto& status = *static_cast<struct statfs*>(result);
    if (::fstatfs(descriptor, &status) != 0) return -errno;
    status.f_type = 0x6969;  // NFS
    return 0;
  }

  std::array<int, 64> threads_{};
  std::array<bool, 64> writing_{};
};

// For the tests of a fixture: TEST_F(Suite, Name) { supervised([&] { ... }); }
template <class Fixture, class System = FaultySystem>
class Supervised : public Fixture {
 protected:
  // If this process can have no supervisor, marks the test as skipped, and does not run the body.
  void supervised(const std::function<void()>& body) {
    if (const std::string refused = try_supervised(body); !refused.empty()) GTEST_SKIP() << refused;
  }
  // Runs the body in any case. Returns whether a supervisor counted its calls.
  bool counted(const std::function<void()>& body) {
    if (try_supervised(body).empty()) return true;
    body();
    return false;
  }

  System system;

 private:
  // Returns why the body was not run, or "".
  std::string try_supervised(const std::function<void()>& body) {
    if (kSanitized) return "a sanitizer does not see that the supervisor waits";
    if (sizeof(void*) < 8) return "the supervisor knows the system calls of machines with 64 bits";
    return run_supervised(body, [this](const seccomp_data& call) { return system.answer(call); });
  }
};

}  // namespace safetensors::test
