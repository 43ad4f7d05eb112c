// A model that is written over another one: the names of its files, the files that stay, and several writers at once.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>
#include <thread>
#include <vector>

#include "io/temporary.h"
#include "os/descriptor.h"
#include "support/checkpoint_writer_support.h"

namespace safetensors::test {
namespace {

class CheckpointGenerations : public CheckpointWriterTest {};

// New files never replace old ones: their names have a generation, which grows.
TEST_F(CheckpointGenerations, NamesGenerationsOfEqualNames) {
  const auto names = [](const std::string& generation) {
    return Names{"m" + generation + "-00001-of-00002.safetensors", "m" + generation + "-00002-of-00002.safetensors",
                 "m.safetensors.index.json"};
  };
  save(2, 'a');
  EXPECT_EQ(files(), names(""));
  CheckpointWriter made = writer(2);
  EXPECT_EQ(made.file_names().value(), (Names{kTwo[0], kTwo[1]}));
  ASSERT_TRUE(succeeds(write_all(made, 2, 'b')));
  ASSERT_TRUE(succeeds(made.commit()));
  EXPECT_EQ(made.file_names().value(), (Names{names("-gen00002")[0], names("-gen00002")[1]}));
  EXPECT_EQ(files(), names("-gen00002"));
  EXPECT_EQ(model(), "2 bb");
  save(2, 'c');
  EXPECT_EQ(files(), names("-gen00003"));
  EXPECT_EQ(model(), "2 cc");
  put(folder_ + "/m-gen99999-00007-of-00009.safetensors", "a file that a killed writer left");
  save(2, 'd');
  EXPECT_EQ(files(), names("-gen100000"));
  EXPECT_EQ(model(), "2 dd");
  EXPECT_EQ(contents(folder_ + "/m.safetensors.index.json"), R"({
  "metadata": {
    "total_size": 8
  },
  "weight_map": {
    "t0": "m-gen100000-00001-of-00002.safetensors",
    "t1": "m-gen100000-00002-of-00002.safetensors"
  }
})");
  save(2, 'e', 2);
  EXPECT_EQ(files(), Names{"m.safetensors"});
}

// A reader that knows an old index may open its files much later. It must find them, or none.
TEST_F(CheckpointGenerations, UsesNoNameAgain) {
  std::set<std::string> used;
  for (const std::size_t count : {3U, 2U, 3U, 1U, 4U, 2U, 3U}) {
    save(count, 'a', count == 1 ? 2 : 1);
    if (count == 1) used.clear();  // a model of one file has no index, so the generations begin again
    for (const std::string& name : files()) {
      EXPECT_TRUE(name == "m.safetensors.index.json" || used.insert(name).second) << name;
    }
  }
  EXPECT_EQ(files()[0], "m-gen00003-00001-of-00003.safetensors");
}

TEST_F(CheckpointGenerations, CountsGenerationsThatOnlyTheIndexNames) {
  ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
  put(folder_ + "/m.safetensors.index.json", index_text({{"t0", "m-gen00008-00001-of-00001.safetensors"}}));
  save(2, 'a');
  EXPECT_EQ(files()[0], "m-gen00009-00001-of-00002.safetensors");
}

// A child that was forked during the save has the folder open for as long as it lives.
TEST_F(CheckpointGenerations, SavesWhileChildOfFirstSaveLives) {
  CheckpointWriter made = writer(2);
  const pid_t child = start_child([] { return ::pause() == 0; });
  ASSERT_TRUE(succeeds(write_all(made, 2, 'a')));
  ASSERT_TRUE(succeeds(made.commit()));
  const os::Descriptor folder(os::open_at(os::kWorkingDirectory, folder_.c_str(), os::kOpenDirectory));
  EXPECT_TRUE(succeeds(io::FolderLock::take(folder.get(), folder_, 1)));
  ::kill(child, SIGKILL);
  EXPECT_EQ(result_of(child), 1000 + SIGKILL);
}

// Other programs number their models, too.
TEST_F(CheckpointGenerations, LeavesWholeModelsOfOtherNames) {
  save(2, 'a');
  const Names others = {"m-gen00010.safetensors", "m-gen20240101.safetensors",
                        "m2-gen00002-00001-of-00002.safetensors"};
  for (const std::string& other : others) put(folder_ + "/" + other, "whole");
  save(2, 'b');
  save(2, 'c', 2);
  for (const std::string& other : others) EXPECT_EQ(contents(folder_ + "/" + other), "whole") << other;
}

// An index may name shards in folders below, such as links to other folders. They are not files of this folder.
TEST_F(CheckpointGenerations, LeavesFilesInFoldersBelow) {
  save(2, 'a');
  const std::string below = directory_ / "below";
  std::filesystem::create_directory(below);
  std::filesystem::create_directory_symlink(below, folder_ + "/sub");
  const Names others = {"sub/m-00001-of-00002.safetensors", "sub/m-00002-of-00002.safetensors", "sub/w.safetensors"};
  for (const std::string& other : others) put(folder_ + "/" + other, u8_file({{other, "left"}}));
  put(folder_ + "/m.safetensors.index.json",
      index_text({{"a", others[0]}, {"b", others[1]}, {"c", others[2]}, {"t0", kTwo[0]}}));
  save(2, 'b');
  save(2, 'c', 2);
  for (const std::string& other : others) EXPECT_TRUE(std::filesystem::exists(folder_ + "/" + other)) << other;
}

TEST_F(CheckpointGenerations, TakesNoModeOfOtherKindsOfFiles) {
  save(2, 'a');
  ASSERT_EQ(::mkdir((folder_ + "/m-gen00007-00001-of-00002.safetensors").c_str(), 0700), 0);
  ASSERT_EQ(::mkfifo((folder_ + "/m-gen00007-00002-of-00002.safetensors").c_str(), 0600), 0);
  save(2, 'b');
  EXPECT_EQ(model(), "2 bb");
  // The new files do not get these names.
  ASSERT_EQ(::mkdir((folder_ + "/" + kTwo[0]).c_str(), 0700), 0);
  ASSERT_EQ(::mkfifo((folder_ + "/" + kTwo[1]).c_str(), 0600), 0);
  save(2, 'c');
  EXPECT_EQ(model(), "2 cc");
}

// A number that no writer chooses does not count, but its name is never used.
TEST_F(CheckpointGenerations, IgnoresHugeGenerations) {
  save(1, 'a');
  put(folder_ + "/m-gen18446744073709551615-00001-of-00002.safetensors", "x");
  put(folder_ + "/m-gen99999999999999999999999-00001-of-00002.safetensors", "x");
  save(2, 'b');
  EXPECT_EQ(files(), kTwo);
}

TEST_F(CheckpointGenerations, GivesModeOfOldGeneration) {
  save(2, 'a');
  ASSERT_EQ(::chmod((folder_ + "/" + kTwo[1]).c_str(), 0640), 0);
  ASSERT_EQ(::chmod((folder_ + "/" + kTwo[2]).c_str(), 0600), 0);
  save(2, 'b');
  save(2, 'c');
  EXPECT_EQ(mode_of(folder_ + "/m-gen00003-00002-of-00002.safetensors"), 0640U);
  EXPECT_EQ(mode_of(folder_ + "/m.safetensors.index.json"), 0600U);
}

// A model that others may not read stays so in another number of files.
TEST_F(CheckpointGenerations, GivesModeOfOldModelToOtherFiles) {
  const auto expect_mode = [&](mode_t mode) {
    for (const std::string& name : files()) {
      if (name.ends_with(".json")) continue;
      EXPECT_EQ(mode_of(folder_ + "/" + name), mode) << name;
    }
  };
  save(1, 'a');
  ASSERT_EQ(::chmod((folder_ + "/m.safetensors").c_str(), 0600), 0);
  save(3, 'b');
  expect_mode(0600);
  ASSERT_EQ(::chmod((folder_ + "/" + files()[1]).c_str(), 0644), 0);
  save(2, 'c', 2);
  EXPECT_EQ(files(), Names{"m.safetensors"});
  expect_mode(0600);
  save(2, 'd');
  ASSERT_EQ(::chmod((folder_ + "/" + files()[0]).c_str(), 0660), 0);
  ASSERT_EQ(::chmod((folder_ + "/" + files()[1]).c_str(), 0644), 0);
  save(3, 'e');
  expect_mode(0640);
}

TEST_F(CheckpointGenerations, GivesOwnerThatAllFilesHave) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give files away";
  const auto change = [&](std::size_t file, uid_t user, gid_t group, mode_t mode) {
    const std::string path = folder_ + "/" + files()[file];
    ASSERT_EQ(::chown(path.c_str(), user, group), 0);
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
  };
  const auto expect_all = [&](uid_t user, mode_t mode) {
    for (const std::string& name : files()) {
      if (name.ends_with(".json")) continue;
      struct stat found {};
      EXPECT_EQ(::stat((folder_ + "/" + name).c_str(), &found), 0) << name;
      EXPECT_EQ(found.st_uid, user) << name;
      EXPECT_EQ(found.st_mode & 07777U, mode) << name;
    }
  };
  save(3, 'a');
  for (std::size_t i = 0; i < 3; ++i) change(i, 1234, i == 2 ? 4321 : 4322, i == 1 ? 0660 : 0664);
  save(4, 'b');
  expect_all(1234, 0600);  // the group of the third file could not read the second file
  for (std::size_t i = 0; i < 4; ++i) change(i, i == 3 ? 1235 : 1234, 4321, 06664);
  save(3, 'c');
  expect_all(0, 0664);  // a program that runs as its owner must not become one of root
}

// Readers of the index would see parts of two models if the new file took the name that the index has.
TEST_F(CheckpointGenerations, NeverTakesNameThatIndexHas) {
  ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
  put(folder_ + "/m.safetensors", u8_file({{"t0", "aaaa"}}));
  put(folder_ + "/extra.safetensors", u8_file({{"t1", "aaaa"}}));
  put(folder_ + "/m.safetensors.index.json", index_text({{"t0", "m.safetensors"}, {"t1", "extra.safetensors"}}));
  save(2, 'b', 2);
  EXPECT_EQ(files(), (Names{"m-gen00002-00001-of-00001.safetensors", "m.safetensors.index.json"}));
  EXPECT_EQ(model(), "2 bb");
  save(2, 'c', 2);
  EXPECT_EQ(files(), Names{"m.safetensors"});
}

// If the index cannot be put in place, nothing of the new model stays.
TEST_F(CheckpointGenerations, TakesBackFilesIfIndexFails) {
  ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
  CheckpointWriter made = writer(2);
  ASSERT_TRUE(succeeds(write_all(made, 2, 'a')));
  ASSERT_EQ(::mkdir((folder_ + "/m.safetensors.index.json").c_str(), 0700), 0);
  EXPECT_EQ(error_of(made.commit()).code, Errc::not_regular_file);
  EXPECT_EQ(files(), Names{"m.safetensors.index.json"});
}

// A killed writer leaves temporary files, which nobody locks.
TEST_F(CheckpointGenerations, RemovesTemporariesOfKilledWriters) {
  const std::string file = "/.safetensors-0123456789abcdef.tmp";
  const std::string folder = "/.safetensors-0123456789abcdef.folder";
  ASSERT_EQ(::mkdir((directory_.path() + folder).c_str(), 0700), 0);
  put(directory_.path() + folder + "/m.safetensors", "x");
  save(2, 'a');
  EXPECT_EQ(beside(), Names{"model"});
  put(folder_ + file, "x");
  CheckpointWriter living = writer(2);
  save(2, 'b');
  EXPECT_EQ(::access((folder_ + file).c_str(), F_OK), -1);
  ASSERT_TRUE(succeeds(write_all(living, 2, 'c')));  // a living writer keeps its files
  ASSERT_TRUE(succeeds(living.commit()));
  EXPECT_EQ(model(), "2 cc");
  EXPECT_EQ(files().size(), 3U);
}

TEST_F(CheckpointGenerations, LetsManyWritersCommitOneAfterTheOther) {
  constexpr int kWriters = 8;
  save(3, 'z');
  std::vector<CheckpointWriter> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.push_back(writer(3));
    ASSERT_TRUE(succeeds(write_all(writers.back(), 3, static_cast<char>('a' + i))));
  }
  std::vector<std::thread> threads;
  for (CheckpointWriter& each : writers) threads.emplace_back([&each] { EXPECT_TRUE(succeeds(each.commit())); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(files().size(), 4U);
  const std::string last = model();
  EXPECT_EQ(last, "3 " + std::string(3, last[2]));
}

}  // namespace
}  // namespace safetensors::test
