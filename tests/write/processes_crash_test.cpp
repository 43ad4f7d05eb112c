// Several processes write a model, and one of them is killed: the files that remain.
#include <gtest/gtest.h>
#include <safetensors/checkpoint_writer.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "io/temporary.h"

#include <csignal>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "support/processes_support.h"
#include "support/traced_child.h"

namespace safetensors::test {
namespace {

class ProcessesCrash : public ProcessesTest {};

// Temporary files live as long as their creator, whoever else has them open.
TEST_F(ProcessesCrash, AreCleanedAfterCreator) {
  for (const bool exists : {false, true}) {
    if (exists) {
      ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
    }
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t living = start_child([&] {
      CheckpointWriter writer = create(layout());
      const std::string ticket = writer.ticket().value();
      if (::write(ends[1], ticket.data(), ticket.size()) < 0) return false;
      ::pause();
      return true;
    });
    char buffer[4096];
    const ssize_t count = ::read(ends[0], buffer, sizeof buffer);
    ASSERT_GT(count, 0);
    const std::string ticket(buffer, static_cast<std::size_t>(count));
    CheckpointWriter joined = CheckpointWriter::join(ticket, layout()).value();
    ASSERT_TRUE(succeeds(letters('b', 0, 1)(joined)));
    EXPECT_EQ(clean_all(), std::vector<std::string>());
    ::kill(living, SIGKILL);
    EXPECT_EQ(result_of(living), 1000 + SIGKILL);
    EXPECT_GT(clean(), 0U);
    const Error error = error_of(letters('b', 1, 4)(joined));
    EXPECT_EQ(error.code, Errc::open_failed);
    EXPECT_EQ(error.to_string(), folder_ +
                                     "/m-00002-of-00004.safetensors: cannot join: the writer that gave the ticket "
                                     "has committed, failed or ended: no such file or directory");
    ::close(ends[0]);
    ::close(ends[1]);
  }
}

const std::set<std::uint64_t> kSteps = {
    SYS_openat,   SYS_pwrite64, SYS_fsync,   SYS_fallocate, SYS_linkat,
    SYS_close,    SYS_unlinkat, SYS_mkdirat, SYS_renameat2,
#ifdef SYS_renameat
    SYS_renameat,
#endif
};
using Found = std::set<std::string>;

// The killed process has written some bytes, and maybe sent its receipt.
TEST_F(ProcessesCrash, KeepOldModelIfWriterIsKilled) {
  Found found;
  for (int last = 0;; ++last) {
    ASSERT_LT(last, 1000);
    save_old('a', 3);
    const std::string sent = directory_ / "receipt";
    std::optional<Traced> traced;
    {
      CheckpointWriter writer = create(layout());
      const std::string ticket = writer.ticket().value();
      ASSERT_TRUE(succeeds(letters('b', 0, 1)(writer)));
      traced = trace_child(kSteps, last, [&] { put(sent, work(ticket, layout(), letters('b', 1, 4))); });
      if (!traced) GTEST_SKIP() << "this process may not trace its children";
      const bool complete = std::filesystem::exists(sent) && contents(sent).ends_with("\nend\n");
      if (complete) {
        ASSERT_TRUE(succeeds(writer.accept(contents(sent))));
      }
      const Status status = writer.commit();
      EXPECT_EQ(status.ok(), complete);
      if (!complete) {
        EXPECT_EQ(error_of(status).code, Errc::incomplete_write);
      }
    }
    expect_no_temporary();
    found.insert(model());
    std::filesystem::remove_all(folder_);
    std::filesystem::remove(sent);
    if (!traced->killed) break;
  }
  EXPECT_EQ(found, (Found{"aaa", "bbbb"}));
}

// The killed creator leaves the old model or the new one, and files that
// clean_directory() removes.
TEST_F(ProcessesCrash, KeepOldOrNewModelIfCreatorIsKilled) {
  Found found;
  // Nothing at the path, an old model of other names, and one of the same names.
  for (const std::size_t old : {std::size_t{0}, std::size_t{3}, std::size_t{4}}) {
    for (int last = 0;; ++last) {
      ASSERT_LT(last, 1000);
      if (old != 0) save_old('a', old);
      const std::optional<Traced> traced = trace_child(kSteps, last, [&] {
        CheckpointWriter writer = create(layout());
        const std::string ticket = writer.ticket().value();
        if (!letters('b', 0, 1)(writer)) ::_exit(1);
        // No other process: a child of the creator would outlive it for a moment, and hold its locks so long.
        const std::string receipt = work(ticket, layout(), letters('b', 1, 4));
        if (!writer.accept(receipt) || !writer.commit()) ::_exit(1);
      });
      if (!traced) GTEST_SKIP() << "this process may not trace its children";
      found.insert((old == 0 ? "new " : "") + model());
      (void)clean();
      if (!traced->killed) break;
      std::filesystem::remove_all(folder_);
    }
    std::filesystem::remove_all(folder_);
  }
  EXPECT_EQ(found, (Found{"aaa", "aaaa", "bbbb", "new open_failed", "new bbbb"}));
}

// A joined writer syncs the files that it wrote, if the creator asks for it.
TEST_F(ProcessesCrash, SyncWhatDurabilityAsks) {
  for (const auto& [durability, syncs] :
       std::map<Durability, int>{{Durability::full, 2}, {Durability::file, 2}, {Durability::none, 0}}) {
    CheckpointWriteOptions options;
    options.write.durability = durability;
    CheckpointWriter writer = create(layout(), options);
    const std::string ticket = writer.ticket().value();
    const std::string sent = directory_ / "receipt";
    const std::optional<Traced> traced =
        trace_child({SYS_fsync}, -1, [&] { put(sent, work(ticket, layout(), letters('b', 1, 3))); });
    if (!traced) GTEST_SKIP() << "this process may not trace its children";
    EXPECT_EQ(traced->calls, syncs);
    ASSERT_TRUE(succeeds(writer.accept(contents(sent))));
    ASSERT_TRUE(succeeds(letters('b', 0, 1)(writer)));
    ASSERT_TRUE(succeeds(letters('b', 3, 4)(writer)));
    ASSERT_TRUE(succeeds(writer.commit()));
    EXPECT_EQ(model(), "bbbb");
    std::filesystem::remove_all(folder_);
  }
}

}  // namespace
}  // namespace safetensors::test
