// Shards that killed writers left in a folder: when a writer begins, it removes them, and never those of others.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>
#include <set>

#include "io/temporary.h"
#include "os/descriptor.h"
#include "support/checkpoint_writer_support.h"
#include "support/traced_child.h"

namespace safetensors::test {
namespace {

class LeftoverShards : public CheckpointWriterTest {
 protected:
  static constexpr const char* kLeft = "m-gen00007-00001-of-00003.safetensors";
  std::string path_of(const std::string& name) const { return folder_ + "/" + name; }
  bool exists(const std::string& name) const { return ::access(path_of(name).c_str(), F_OK) == 0; }
  void put_leftover() { put(path_of(kLeft), u8_file({{"t0", "left"}})); }
  // Returns whether a shard survives the beginning of a save that is given up.
  bool survives_start(const std::string& name, const CheckpointWriteOptions& options = {}) {
    const CheckpointWriter made = writer(2, 1, options);
    return exists(name);
  }
};

TEST_F(LeftoverShards, GoWhenAWriterBegins) {
  save(2, 'a');
  put_leftover();
  EXPECT_FALSE(survives_start(kLeft));
  EXPECT_EQ(files(), kTwo);
  EXPECT_EQ(model(), "2 aa");
}

TEST_F(LeftoverShards, GoBesideAModelOfOneFile) {
  save(2, 'a', 2);
  put_leftover();
  EXPECT_FALSE(survives_start(kLeft));
  EXPECT_EQ(files(), Names{"m.safetensors"});
}

// Another writer gives its files their names under the lock, and then renames its index.
TEST_F(LeftoverShards, StayWhileAWriterHoldsTheLock) {
  save(2, 'a');
  put_leftover();
  const os::Descriptor folder(os::open_at(os::kWorkingDirectory, folder_.c_str(), os::kOpenDirectory));
  std::optional<io::FolderLock> lock(io::FolderLock::take(folder.get(), folder_, 1).value());
  EXPECT_TRUE(lock->held());
  EXPECT_TRUE(survives_start(kLeft));
  lock.reset();
  EXPECT_FALSE(survives_start(kLeft));
}

TEST_F(LeftoverShards, StayIfTheCallerKeepsOldFiles) {
  save(2, 'a');
  put_leftover();
  EXPECT_TRUE(survives_start(kLeft, {.remove_old_files = false}));
}

TEST_F(LeftoverShards, StayIfAnyIndexMayNameThem) {
  save(2, 'a');
  put_leftover();
  const std::string variant = path_of("other.safetensors.index.fp16.json");
  put(variant, index_text({{"t0", kLeft}}));
  EXPECT_TRUE(survives_start(kLeft));
  put(variant, "damaged");
  EXPECT_TRUE(survives_start(kLeft));
  ASSERT_EQ(::unlink(variant.c_str()), 0);
  EXPECT_FALSE(survives_start(kLeft));
}

// A damaged index may have lost the names of the others.
TEST_F(LeftoverShards, AreNoShardsOfASetThatTheIndexNames) {
  save(2, 'a');
  put(path_of("m.safetensors.index.json"), index_text({{"t0", kTwo[0]}}));
  EXPECT_TRUE(survives_start(kTwo[1]));
}

TEST_F(LeftoverShards, AreNoShardsWithoutAnIndex) {
  save(2, 'a');
  ASSERT_EQ(::unlink(path_of("m.safetensors.index.json").c_str()), 0);
  EXPECT_TRUE(survives_start(kTwo[0]));
}

// The input of a save that may fail.
TEST_F(LeftoverShards, StayWhileThisProcessHasThemOpen) {
  save(2, 'a');
  put_leftover();
  {
    const Result<File> input = File::open(path_of(kLeft));
    ASSERT_TRUE(succeeds(input));
    EXPECT_TRUE(survives_start(kLeft));
  }
  EXPECT_FALSE(survives_start(kLeft));
}

// Without this, a full disk never gets free: each killed save would leave a whole model.
TEST_F(LeftoverShards, DoNotAddUp) {
  save(3, 'a');
  const std::set<std::uint64_t> renames = {
      SYS_linkat,
      SYS_renameat2,
#ifdef SYS_renameat
      SYS_renameat,
#endif
  };
  std::size_t most = 0;
  for (int kill = 0; kill < 6; ++kill) {
    const auto traced = trace_child(renames, 3, [&] { save(3, 'b'); });
    if (!traced) GTEST_SKIP() << "this process may not trace its children";
    EXPECT_TRUE(traced->killed);
    EXPECT_EQ(model(), "3 aaa");
    if (kill == 0) most = files().size();
    EXPECT_LE(files().size(), most) << kill;
  }
  save(3, 'c');
  EXPECT_EQ(files().size(), 4U);
  EXPECT_EQ(model(), "3 ccc");
}

}  // namespace
}  // namespace safetensors::test
