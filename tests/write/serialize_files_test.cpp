// Writing several files at once: all are replaced or none, as far as the system allows.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <safetensors/writer.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "os/descriptor.h"
#include "support/io_support.h"

namespace safetensors::test {
namespace {

using Names = std::vector<std::string>;

class WriteFiles : public testing::Test {
 protected:
  // Shards "0", "1" ... of some tensors each, one larger than the other.
  explicit WriteFiles(std::size_t count = 4) {
    for (std::size_t i = 0; i < count; ++i) {
      paths.push_back(directory / std::to_string(i));
      bytes.emplace_back(i * 3'000'000 + 1000 * i + 17, static_cast<char>('a' + i));
      bytes.back().back() = '!';
      shapes.push_back({bytes.back().size()});
    }
    for (std::size_t i = 0; i < count; ++i) {
      tensors.push_back({{"large", Dtype::U8, shapes[i], bytes_of(bytes[i])},
                         {"small", Dtype::I8, small, bytes_of("xyz")},
                         {"none", Dtype::F32, none, {}}});
    }
    for (std::size_t i = 0; i < count; ++i) {
      files.push_back({paths[i], tensors[i]});
      if (i % 2 == 0) files.back().metadata = MetadataPairs{{"shard", std::to_string(i)}};
    }
  }
  void put_old_files() const {
    for (const std::string& path : paths) put(path, "old");
  }
  void expect_untouched(const Names& names = {"0", "1", "2", "3"}) const {
    EXPECT_EQ(directory.names(), names);
    for (const std::string& path : paths) EXPECT_EQ(contents(path), "old") << path;
  }

  const TemporaryDirectory directory;
  const std::vector<std::uint64_t> small{3}, none{0};
  std::vector<std::string> paths, bytes;
  std::vector<std::vector<std::uint64_t>> shapes;
  std::vector<std::vector<TensorData>> tensors;
  std::vector<FileContents> files;
};

TEST_F(WriteFiles, WritesBytesOfSerialize) {
  for (const Durability durability : {Durability::none, Durability::file, Durability::full}) {
    ASSERT_TRUE(succeeds(write_files(files, {.durability = durability}, {.data_alignment = 64})));
    for (std::size_t i = 0; i < files.size(); ++i) {
      const auto expected = serialize(tensors[i], files[i].metadata, {.data_alignment = 64});
      EXPECT_TRUE(contents(paths[i]) == data_of(expected.value())) << i;
    }
    EXPECT_EQ(directory.names(), (Names{"0", "1", "2", "3"}));
  }
}

TEST_F(WriteFiles, AcceptsNoFiles) {
  EXPECT_TRUE(succeeds(write_files({})));
}

TEST_F(WriteFiles, ReportsAllBytesBeforeReplacement) {
  put_old_files();
  for (const Durability durability : {Durability::none, Durability::full}) {
    put_old_files();
    std::vector<std::uint64_t> reports;
    std::uint64_t size = 0;
    const auto self = std::this_thread::get_id();
    WriteOptions options{.durability = durability};
    options.progress = [&](std::uint64_t done, std::uint64_t total) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      for (const std::string& path : paths) EXPECT_EQ(contents(path), "old");
      reports.push_back(done);
      size = total;
      return true;
    };
    ASSERT_TRUE(succeeds(write_files(files, options)));
    std::uint64_t sum = 0;
    for (const std::string& path : paths) sum += contents(path).size();
    EXPECT_EQ(size, sum);
    ASSERT_FALSE(reports.empty());
    EXPECT_TRUE(std::is_sorted(reports.begin(), reports.end()));
    EXPECT_EQ(reports.back(), sum);
  }
}

TEST_F(WriteFiles, KeepsOldFilesIfCancelled) {
  put_old_files();
  for (const Durability durability : {Durability::none, Durability::full}) {
    for (const bool at_the_end : {false, true}) {
      WriteOptions options{.durability = durability};
      options.progress = [&](std::uint64_t done, std::uint64_t total) { return at_the_end && done != total; };
      const Error error = error_of(write_files(files, options));
      EXPECT_EQ(error.code, Errc::cancelled);
      EXPECT_EQ(error.message.substr(0, 16), "cancelled after ");
      expect_untouched();
    }
  }
}

TEST_F(WriteFiles, NamesFileWithInvalidTensors) {
  put_old_files();
  tensors[2][0].bytes = tensors[2][0].bytes.first(5);
  const Error error = error_of(write_files(files));
  EXPECT_EQ(error.code, Errc::data_length);
  EXPECT_EQ(error.path, paths[2]);
  EXPECT_EQ(error.message, "tensor `large`: 5 bytes given, U8 [6002017] needs 6002017");
  expect_untouched();
}

TEST_F(WriteFiles, NamesFileThatCannotBeCreated) {
  put_old_files();
  const std::string missing = directory / "missing/model";
  files[3].path = missing;
  const Error error = error_of(write_files(files));
  EXPECT_EQ(error.code, Errc::open_failed);
  EXPECT_EQ(error.path, missing);
  expect_untouched();
}

TEST_F(WriteFiles, RefusesTwoPathsToOneFile) {
  put_old_files();
  ASSERT_EQ(::symlink("1", (directory / "link").c_str()), 0);
  const std::string link = directory / "link";
  for (const std::string& path : {paths[1], link}) {
    files[3].path = path;
    const Error error = error_of(write_files(files));
    EXPECT_EQ(error.code, Errc::invalid_argument);
    EXPECT_EQ(error.path, path);
    EXPECT_EQ(error.message, "two of the files to be written have this path");
    expect_untouched({"0", "1", "2", "3", "link"});
  }
}

TEST_F(WriteFiles, DetectsFifoBeforeFirstRename) {
  put_old_files();
  WriteOptions options;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    if (done == total) {
      EXPECT_EQ(::unlink(paths[2].c_str()), 0);
      EXPECT_EQ(::mkfifo(paths[2].c_str(), 0600), 0);
    }
    return true;
  };
  const Error error = error_of(write_files(files, options));
  EXPECT_EQ(error.code, Errc::not_regular_file);
  EXPECT_EQ(error.path, paths[2]);
  for (const std::size_t i : {0U, 1U, 3U}) EXPECT_EQ(contents(paths[i]), "old");
  EXPECT_EQ(directory.names(), (Names{"0", "1", "2", "3"}));
}

// A file that must not be changed is the one thing that only renaming finds out.
TEST_F(WriteFiles, CountsReplacedFilesInError) {
  put_old_files();
  const os::Descriptor file(::open(paths[2].c_str(), O_RDONLY | O_CLOEXEC));
  int flags = FS_IMMUTABLE_FL;
  if (::ioctl(file.get(), FS_IOC_SETFLAGS, &flags) != 0) GTEST_SKIP() << "no immutable files: " << std::strerror(errno);
  const Error error = error_of(write_files(files));
  flags = 0;
  EXPECT_EQ(::ioctl(file.get(), FS_IOC_SETFLAGS, &flags), 0);
  EXPECT_EQ(error.path, paths[2]);
  EXPECT_EQ(error.os_error, EPERM);
  EXPECT_EQ(error.message,
            "this file system cannot rename the new file over the old one (in_place_if_no_rename allows to write in "
            "place): operation not permitted; 2 of 4 files were already replaced");
  EXPECT_EQ(contents(paths[2]), "old");
  EXPECT_EQ(contents(paths[3]), "old");
  EXPECT_TRUE(contents(paths[1]) == data_of(serialize(tensors[1]).value()));
  EXPECT_EQ(directory.names(), (Names{"0", "1", "2", "3"}));
}

TEST_F(WriteFiles, KeepsOldFilesIfDiskIsFull) {
  const std::string mount_point = directory / "small";
  ASSERT_EQ(::mkdir(mount_point.c_str(), 0755), 0);
  if (::mount("tmpfs", mount_point.c_str(), "tmpfs", 0, "size=4m") != 0)
    GTEST_SKIP() << "mounting a tmpfs needs root: " << std::strerror(errno);
  for (std::size_t i = 0; i < 4; ++i) {
    paths[i] = mount_point + "/" + std::to_string(i);
    files[i].path = paths[i];
  }
  put_old_files();
  for (const Durability durability : {Durability::full, Durability::none}) {
    const Error error = error_of(write_files(files, {.durability = durability}));
    EXPECT_EQ(error.code, Errc::write_failed);
    EXPECT_EQ(error.os_error, ENOSPC);
    for (const std::string& path : paths) EXPECT_EQ(contents(path), "old");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(mount_point), std::filesystem::directory_iterator()),
              4);
  }
  EXPECT_EQ(::umount2(mount_point.c_str(), MNT_DETACH), 0);
}

}  // namespace
}  // namespace safetensors::test
