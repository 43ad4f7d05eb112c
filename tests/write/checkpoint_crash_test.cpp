// The files that a crash leaves while a model is replaced. A child process replaces it, and is killed before each
// system call that changes a folder, one after the other. Each time, the folder must hold the old model or the new one,
// and the next save must leave nothing but its own files.
#include <gtest/gtest.h>
#include <safetensors/checkpoint.h>
#include <safetensors/checkpoint_writer.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <set>
#include <vector>

#include "os/directory.h"
#include "support/checkpoint_support.h"
#include "support/traced_child.h"

namespace safetensors::test {
namespace {

const std::set<std::uint64_t> kChanges = {
    SYS_linkat,   SYS_unlinkat, SYS_mkdirat, SYS_renameat2,
#ifdef SYS_renameat
    SYS_renameat,
#endif
};

class CheckpointCrash : public testing::Test {
 protected:
  // Saves `count` files with one tensor each, or one file of all tensors. Each tensor has four times the letter.
  void save(const std::string& folder, std::size_t count, char letter, std::uint64_t max_size = 4,
            const CheckpointWriteOptions& options = {}) {
    const std::vector<std::uint8_t> bytes(4, static_cast<std::uint8_t>(letter));
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) names.push_back("t" + std::to_string(i));
    std::vector<NamedTensor> tensors;
    for (const std::string& name : names) tensors.emplace_back(name, Shape{4}, bytes);
    ASSERT_TRUE(succeeds(save_checkpoint(folder, tensors, {.max_shard_size = max_size}, options)));
  }
  // The letters of the tensors, or the name of the error.
  static std::string read(const std::string& folder) {
    const Result<Checkpoint> model = Checkpoint::open(folder);
    if (!model) return std::string(to_string(model.error().code));
    std::string letters;
    for (const Tensor& tensor : model->tensors()) letters += read_text(Result<Tensor>(tensor))[0];
    return letters;
  }
  // Replaces a model as `replace` does, with a crash at every place. Returns what the folder holds after each.
  std::set<std::string> after_crashes(const std::function<void(const std::string&)>& prepare,
                                      const std::function<void(const std::string&)>& replace) {
    std::set<std::string> found;
    for (int last = 0;; ++last) {
      const TemporaryDirectory directory;
      const std::string folder = directory / "model";
      prepare(folder);
      const std::optional<Traced> traced = trace_child(kChanges, last, [&] { replace(folder); });
      if (!traced) return {};
      found.insert(read(folder));
      ::unlink((folder + "/extra.safetensors").c_str());  // of another program
      save(folder, 2, 'z');
      EXPECT_EQ(read(folder), "zz");
      EXPECT_EQ(os::list_directory(folder, true).value().size(), 3U);
      EXPECT_EQ(directory.names(), std::vector<std::string>{"model"});
      if (!traced->killed) break;
      EXPECT_LT(last, 1000);
    }
    return found;
  }
};

#define SKIP_WITHOUT_TRACES(found) \
  if ((found).empty()) GTEST_SKIP() << "this process may not trace its children"

using Found = std::set<std::string>;

TEST_F(CheckpointCrash, ShowsNewFolderWholeOrNot) {
  const Found found = after_crashes([](const std::string&) {}, [&](const std::string& f) { save(f, 3, 'b'); });
  SKIP_WITHOUT_TRACES(found);
  EXPECT_EQ(found, (Found{"open_failed", "bbb"}));
}

TEST_F(CheckpointCrash, KeepsOldOrNewModelOfOtherNames) {
  const Found found =
      after_crashes([&](const std::string& f) { save(f, 3, 'a'); }, [&](const std::string& f) { save(f, 2, 'b'); });
  SKIP_WITHOUT_TRACES(found);
  EXPECT_EQ(found, (Found{"aaa", "bb"}));
}

TEST_F(CheckpointCrash, KeepsOldOrNewModelIfOneFileReplacesMany) {
  const Found found = after_crashes([&](const std::string& f) { save(f, 3, 'a'); },
                                    [&](const std::string& f) { save(f, 2, 'b', 100); });
  SKIP_WITHOUT_TRACES(found);
  EXPECT_EQ(found, (Found{"aaa", "bb"}));
}

TEST_F(CheckpointCrash, KeepsOldOrNewModelOfEqualNames) {
  const auto old = [&](const std::string& f) { save(f, 3, 'a'); };
  const Found found = after_crashes(old, [&](const std::string& f) { save(f, 3, 'b'); });
  SKIP_WITHOUT_TRACES(found);
  EXPECT_EQ(found, (Found{"aaa", "bbb"}));
}

TEST_F(CheckpointCrash, KeepsOldOrNewModelOfLaterGenerations) {
  const auto old = [&](const std::string& f) {
    for (const char letter : {'x', 'y', 'a'}) save(f, 2, letter);
  };
  const Found found = after_crashes(old, [&](const std::string& f) { save(f, 2, 'b'); });
  SKIP_WITHOUT_TRACES(found);
  EXPECT_EQ(found, (Found{"aa", "bb"}));
}

TEST_F(CheckpointCrash, KeepsOldOrNewModelOfOneFile) {
  const Found found = after_crashes([&](const std::string& f) { save(f, 2, 'a', 100); },
                                    [&](const std::string& f) { save(f, 2, 'b', 100); });
  SKIP_WITHOUT_TRACES(found);
  EXPECT_EQ(found, (Found{"aa", "bb"}));
}

// Other programs write an index that names `model.safetensors` and more files.
TEST_F(CheckpointCrash, KeepsOldOrNewModelIfIndexNamesTheOneFile) {
  const auto old = [&](const std::string& f) {
    std::filesystem::create_directory(f);
    put(f + "/model.safetensors", u8_file({{"t0", "aaaa"}}));
    put(f + "/extra.safetensors", u8_file({{"t1", "aaaa"}}));
    put(f + "/model.safetensors.index.json", index_text({{"t0", "model.safetensors"}, {"t1", "extra.safetensors"}}));
    ASSERT_EQ(read(f), "aa");
  };
  const Found found = after_crashes(old, [&](const std::string& f) { save(f, 2, 'b', 100); });
  SKIP_WITHOUT_TRACES(found);
  EXPECT_EQ(found, (Found{"aa", "bb"}));
}

// The file of the old model is then one of one, in a generation.
TEST_F(CheckpointCrash, KeepsOldOrNewModelIfOneFileReplacesOneOfAGeneration) {
  const auto old = [&](const std::string& f) {
    std::filesystem::create_directory(f);
    put(f + "/model.safetensors", u8_file({{"t0", "aaaa"}}));
    put(f + "/model.safetensors.index.json", index_text({{"t0", "model.safetensors"}}));
    save(f, 2, 'a', 100);
    ASSERT_TRUE(std::filesystem::exists(f + "/model-gen00002-00001-of-00001.safetensors"));
  };
  const Found found = after_crashes(old, [&](const std::string& f) { save(f, 2, 'b', 100); });
  SKIP_WITHOUT_TRACES(found);
  EXPECT_EQ(found, (Found{"aa", "bb"}));
}

TEST_F(CheckpointCrash, KeepsOldOrNewModelIfManyFilesReplaceOne) {
  const Found found = after_crashes([&](const std::string& f) { save(f, 2, 'a', 100); },
                                    [&](const std::string& f) { save(f, 2, 'b'); });
  SKIP_WITHOUT_TRACES(found);
  EXPECT_EQ(found, (Found{"aa", "bb"}));
}

TEST_F(CheckpointCrash, NeverShowsPartOfModelInEmptyFolder) {
  const Found found = after_crashes([](const std::string& f) { std::filesystem::create_directory(f); },
                                    [&](const std::string& f) { save(f, 3, 'b'); });
  SKIP_WITHOUT_TRACES(found);
  EXPECT_EQ(found, (Found{"not_found", "bbb"}));
}

}  // namespace
}  // namespace safetensors::test
