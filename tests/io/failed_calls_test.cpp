// Fails each system call that an AtomicFile makes, in turn. Calls that only look at a path (stat, readlink) are left
// out.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>

#include "support/atomic_file_support.h"
#include "support/io_faults.h"
#include "support/io_support.h"

namespace safetensors::test {
namespace {

constexpr long kCounted[] = {SYS_openat,          SYS_close,    SYS_pwrite64, SYS_copy_file_range, SYS_fallocate,
                             SYS_sync_file_range, SYS_fsync,    SYS_syncfs,   SYS_fchmod,          SYS_fchown,
                             SYS_renameat2,       SYS_unlinkat,
#ifdef SYS_renameat
                             SYS_renameat,
#endif
                             SYS_linkat,          SYS_fcntl,    SYS_flock,    SYS_fstatfs,         SYS_statx};

class FailingSystem : public FaultySystem {
 public:
  bool armed = false;
  int failing = 0, number = 0;  // the index of the call that fails, and its error
  int calls = 0;                // while it was armed
  bool unlink_failed = false;

  std::optional<long> answer(const seccomp_data& call) {
    const bool counted = armed && std::ranges::find(kCounted, call.nr) != std::end(kCounted);
    if (!counted || calls++ != failing) return FaultySystem::answer(call);
    unlink_failed = call.nr == SYS_unlinkat;
    if (call.nr == SYS_close) ::close(descriptor_of(call.args[0]));
    return -number;
  }
};

class FailedCalls : public Supervised<AtomicFileTest, FailingSystem> {
 protected:
  enum class Before { nothing, old, appears, appears_and_stays };

  // The path must hold either the old bytes or all new bytes.
  void check(const std::string& there, const Status& status, const std::string& text) {
    const bool written = std::filesystem::exists(path) && contents(path) == text;
    const bool replaced = !status && status.error().code == Errc::replaced_not_durable;
    EXPECT_EQ(written, status.ok() || replaced);
    if (!written) {
      EXPECT_EQ(std::filesystem::exists(path), !there.empty());
      EXPECT_EQ(there.empty() ? "" : contents(path), there);
    }
    if (!status) {
      EXPECT_EQ(status.error().path, path) << status.error().message;
    }
    for (const std::string& name : directory.names()) EXPECT_TRUE(name == "model" || system.unlink_failed) << name;
    EXPECT_EQ(open_below(directory.path()), 0u);
  }

  Status write(Before before, Durability durability, const std::string& text, std::string& there) {
    const io::Links links = before == Before::appears_and_stays ? io::Links::refuse : io::Links::follow;
    auto file = AtomicFile::create(path, text.size(), {.durability = durability, .links = links});
    if (!file) return file.error();
    if (Status written = (*file)->file().write_at(0, bytes_of(text)); !written) return written;
    system.armed = false;
    if (before == Before::appears || before == Before::appears_and_stays) put(path, there = "other");
    system.armed = true;
    return (*file)->commit();
  }

  // Returns false if no call had this index. The first call has index 0.
  bool fail(int call, int number, Before before, Durability durability, const std::string& text) {
    SCOPED_TRACE("call " + std::to_string(call) + ", errno " + std::to_string(number) + ", before " +
                 std::to_string(static_cast<int>(before)) + ", sync " + std::to_string(static_cast<int>(durability)));
    for (const std::string& name : directory.names()) EXPECT_EQ(::unlink((directory / name).c_str()), 0);
    std::string there = before == Before::old ? "old" : "";
    if (before == Before::old) put(path, there);
    system.failing = call, system.number = number, system.calls = 0, system.unlink_failed = false;
    system.armed = true;
    const Status status = write(before, durability, text, there);
    system.armed = false;
    check(there, status, text);
    return system.calls > call;
  }
};

TEST_F(FailedCalls, LeaveOldOrNewFile) {
  const std::string small = "new", large = noise((std::size_t{1} << 20) + 5);
  supervised([&] {
    int failures = 0;
    for (const int number : {EIO, ENOSPC, EMFILE, EPERM, EOPNOTSUPP, ENOENT, EEXIST, EINTR, EWOULDBLOCK}) {
      for (const Before before : {Before::nothing, Before::old, Before::appears, Before::appears_and_stays}) {
        for (const Durability durability : {Durability::none, Durability::full}) {
          for (const std::string* text : {&small, &large}) {
            for (int call = 0; fail(call, number, before, durability, *text); ++call) ++failures;
          }
        }
      }
    }
    EXPECT_GT(failures, 1000);
  });
}

}  // namespace
}  // namespace safetensors::test
