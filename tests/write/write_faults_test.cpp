// The effect of failing system calls on the files of a model, and on an edit in place.
#include <gtest/gtest.h>
#include <safetensors/writer.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "support/checkpoint_writer_support.h"
#include "support/io_faults.h"

namespace safetensors::test {
namespace {

// A model of three files that is replaced by another.
class ModelFaults : public Supervised<CheckpointWriterTest> {
 protected:
  // Commits a second model. The failures count from the commit on.
  Status commit() {
    save(3, 'a');
    CheckpointWriter made = writer(3);
    EXPECT_TRUE(succeeds(write_all(made, 3, 'b')));
    system.links = system.renames = system.file_syncs = system.directory_syncs = 0;
    order();
    Status status = made.commit();
    system.link_errno = system.directory_sync_errno = 0;
    return status;
  }
  void expect_old() {
    EXPECT_EQ(files(), kThree);
    EXPECT_EQ(model(), "3 aaa");
  }
  std::function<void()> order = [] {};
};

TEST_F(ModelFaults, TakesBackFilesUnderOtherNames) {
  supervised([&] {
    for (int placed = 0; placed < 3; ++placed) {
      order = [&] { system.link_errno = EIO, system.links_before_failure = placed; };
      const Error error = error_of(commit());
      EXPECT_EQ(error.code, Errc::replace_failed);
      EXPECT_EQ(error.message, "cannot put the new file in place: input/output error");
      EXPECT_EQ(system.links, placed + 1);
      expect_old();
      std::filesystem::remove_all(folder_);
    }
  });
}

// Another program has taken the name.
TEST_F(ModelFaults, NeverReplacesFileOfOtherName) {
  const std::string name = "m-gen00002-00003-of-00003.safetensors";
  supervised([&] {
    order = [&] {
      system.before_link = [&] {
        if (system.links == 2) put(folder_ + "/" + name, "other");
      };
    };
    const Error error = error_of(commit());
    EXPECT_EQ(error.code, Errc::replace_failed);
    EXPECT_EQ(error.os_error, EEXIST);
    EXPECT_EQ(contents(folder_ + "/" + name), "other");
    ASSERT_EQ(::unlink((folder_ + "/" + name).c_str()), 0);
    expect_old();
  });
}

// The folder is synced once for the files, and once for the index.
TEST_F(ModelFaults, SyncsDirectoryOnceAtEnd) {
  supervised([&] {
    int before_links = -1, before_rename = -1;
    system.before_link = [&] { before_links = system.directory_syncs; };
    system.before_rename = [&] { before_rename = system.directory_syncs; };
    ASSERT_TRUE(succeeds(commit()));
    EXPECT_EQ(system.links, 3);
    EXPECT_EQ(before_links, 0);
    EXPECT_EQ(before_rename, 1);
    EXPECT_EQ(system.directory_syncs, 2);
    EXPECT_EQ(model(), "3 bbb");
    std::filesystem::remove_all(folder_);
    order = [&] { system.directory_sync_errno = EIO; };
    EXPECT_EQ(error_of(commit()).code, Errc::replaced_not_durable);
    EXPECT_EQ(model(), "3 bbb");
  });
}

// Large tensors in memory, in four files.
class SaveFaults : public ModelFaults {
 protected:
  void SetUp() override {
    for (std::size_t i = 0; i < 4; ++i) bytes_.push_back(noise((i + 1) * 3'000'000 + 17, i));
    for (std::size_t i = 0; i < 4; ++i)
      tensors_.emplace_back(
          TensorData{"t" + std::to_string(i), Dtype::U8, Shape{bytes_[i].size()}, bytes_of(bytes_[i])});
  }
  Status save_all(Durability durability) {
    return save_checkpoint(folder_, tensors_, {.max_shard_size = 1, .stem = "m"},
                           {.write = {.durability = durability}});
  }
  std::vector<std::string> bytes_;
  std::vector<NamedTensor> tensors_;
};

TEST_F(SaveFaults, SyncsEachFileOnceInFewThreads) {
  supervised([&] {
    ASSERT_TRUE(succeeds(save_all(Durability::full)));
    EXPECT_LE(system.writers, 4u);
    EXPECT_EQ(system.file_syncs, 4 + 1);  // with the index
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_TRUE(read_text(Checkpoint::open(folder_).value().tensor("t" + std::to_string(i))) == bytes_[i]);
  });
}

TEST_F(SaveFaults, KeepsOldFilesIfDiskIsFull) {
  supervised([&] {
    save(3, 'a');
    for (const Durability durability : {Durability::full, Durability::none}) {
      for (const bool early : {true, false}) {
        system.preallocate_errno = early ? ENOSPC : EOPNOTSUPP;
        system.write_errno = ENOSPC;
        system.writes_before_failure = 6;
        const Error error = error_of(save_all(durability));
        EXPECT_EQ(error.code, Errc::write_failed);
        EXPECT_EQ(error.os_error, ENOSPC);
        expect_old();
      }
    }
  });
}

class EditInPlace : public Supervised<testing::Test> {
 protected:
  void SetUp() override { put(path, old); }
  Status edit(Durability durability = Durability::full) {
    return edit_metadata(path, {{"k", "new"}}, {.in_place = true, .write = {.durability = durability}});
  }
  const TemporaryDirectory directory;
  const std::string path = directory / "model";
  const std::string old = data_of(serialize({}, MetadataPairs{{"k", "the old value"}}).value());
};

TEST_F(EditInPlace, ChangesBytesInPlace) {
  supervised([&] {
    const ino_t inode = inode_of(path);
    system.longest_write = 2;
    system.interruptions = 1;
    ASSERT_TRUE(succeeds(edit()));
    const File file = File::open(path).value();
    EXPECT_EQ(file.metadata().find("k"), "new");
    EXPECT_EQ(contents(path).size(), old.size());
    EXPECT_EQ(inode_of(path), inode);
    EXPECT_EQ(system.interruptions, 0);
    EXPECT_EQ(system.file_syncs, 1);
    EXPECT_EQ(system.opened, 1);
    EXPECT_EQ(directory.names(), Names{"model"});
  });
}

TEST_F(EditInPlace, SyncsNothingIfNotDurable) {
  supervised([&] {
    ASSERT_TRUE(succeeds(edit(Durability::none)));
    EXPECT_EQ(system.file_syncs, 0);
  });
}

TEST_F(EditInPlace, RefusesChangedFile) {
  supervised([&] {
    system.before_overwrite = [&] { put(path, "something else"); };
    const Error error = error_of(edit());
    EXPECT_EQ(error.code, Errc::file_changed);
    EXPECT_EQ(error.path, path);
    EXPECT_EQ(contents(path), "something else");
    put(path, old);
    system.before_overwrite = [&] { EXPECT_EQ(::unlink(path.c_str()), 0); };
    EXPECT_EQ(error_of(edit()).os_error, ENOENT);
    put(path, old);
    system.before_overwrite = [&] {
      EXPECT_EQ(::unlink(path.c_str()), 0);
      EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    };
    EXPECT_EQ(error_of(edit()).os_error, ENXIO);  // it does not wait for a reader
  });
}

TEST_F(EditInPlace, ReportsFailures) {
  supervised([&] {
    system.file_sync_errno = EIO;
    EXPECT_EQ(error_of(edit()).code, Errc::sync_failed);
    EXPECT_EQ(system.file_syncs, 1);
    put(path, old);
    system.write_errno = EIO;
    const Error error = error_of(edit());
    EXPECT_EQ(error.code, Errc::write_failed);
    EXPECT_EQ(error.offset, 8u);
    EXPECT_EQ(contents(path), old);
  });
}

}  // namespace
}  // namespace safetensors::test
