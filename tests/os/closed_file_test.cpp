// Files that are closed between two uses: they are opened again by their paths, if nobody changed them.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "os/descriptor.h"
#include "os/regular_file.h"
#include "support/io_support.h"

namespace safetensors::os {
namespace {

using test::error_of;
using test::in_child;
using test::open_below;
using test::put;
using test::succeeds;
using test::TemporaryDirectory;
using test::text_of;

TEST(DescriptorLimit, IsHalfOfProcessLimit) {
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit limit = before;
  for (const auto& [soft, expected] : {std::pair<rlim_t, std::size_t>{64, 32}, {1, 1}, {0, 1}}) {
    limit.rlim_cur = soft;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(descriptor_limit(), expected);
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

class ClosedFile : public testing::Test {
 protected:
  void SetUp() override {
    put(path_, "aaaa");
    file_ = RegularFile::open(path_, Between::is_closed).value();
  }
  std::string read() const {
    std::string bytes(4, '?');
    const Status status = read_exactly(*file_, 0, std::as_writable_bytes(std::span(bytes)));
    return status ? bytes : status.error().message;
  }
  std::size_t open() const { return open_below(directory_.path()); }
  void expect_changed(const std::string& message) {
    const Error error = error_of(file_->lease());
    EXPECT_EQ(error.code, Errc::file_changed) << error.to_string();
    EXPECT_EQ(error.message, message);
    EXPECT_EQ(error.path, "");
    EXPECT_EQ(read(), message);
    EXPECT_EQ(error_of(file_->map(0, 4, MapMode::shared)).code, Errc::file_changed);
  }
  TemporaryDirectory directory_;
  const std::string path_ = directory_ / "a";
  std::shared_ptr<const RegularFile> file_;
};

TEST_F(ClosedFile, IsOpenOnlyWhileItIsUsed) {
  EXPECT_EQ(open(), 0U);
  EXPECT_EQ(read(), "aaaa");
  EXPECT_EQ(open(), 0U);
  {
    const Result<Lease> lease = file_->lease();
    const Result<Lease> other = file_->lease();
    EXPECT_EQ(open(), 2U);
    EXPECT_NE(lease->get(), other->get());
  }
  EXPECT_EQ(open(), 0U);
  EXPECT_EQ(file_->size().value(), 4U);
}

TEST_F(ClosedFile, KeepsMapWithoutDescriptor) {
  const Result<Mapping> map = file_->map(0, 4, MapMode::shared);
  ASSERT_TRUE(succeeds(map));
  EXPECT_EQ(open(), 0U);
  EXPECT_EQ(text_of(map->bytes), "aaaa");
}

TEST_F(ClosedFile, RefusesReplacedFile) {
  put(directory_ / "new", "aaaa");
  ASSERT_EQ(::rename((directory_ / "new").c_str(), (directory_ / "a").c_str()), 0);
  expect_changed("file was replaced: its path leads to another file than the one opened");
}

TEST_F(ClosedFile, RefusesLongerFile) {
  put(directory_ / "a", "aaaaa");
  expect_changed("file was changed: it had 4 bytes when it was opened, now it has 5");
}

TEST_F(ClosedFile, RefusesOtherChangeTime) {
  ASSERT_EQ(::chmod((directory_ / "a").c_str(), 0400), 0);
  expect_changed("file was changed after it was opened: its change time is another");
}

TEST_F(ClosedFile, RefusesFifo) {
  ASSERT_EQ(::mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  ASSERT_EQ(::rename((directory_ / "fifo").c_str(), (directory_ / "a").c_str()), 0);
  expect_changed("file was replaced: its path leads to another file than the one opened");
}

TEST_F(ClosedFile, IsRefusedAsAnOpenOne) {
  EXPECT_EQ(error_of(RegularFile::open(directory_ / "none", Between::is_closed)).message,
            "cannot open: no such file or directory");
  EXPECT_EQ(error_of(RegularFile::open(directory_.path(), Between::is_closed)).code, Errc::not_regular_file);
  EXPECT_EQ(error_of(RegularFile::open("/proc/self/status", Between::is_closed)).code, Errc::not_regular_file);
  EXPECT_EQ(open(), 0U);
}

}  // namespace
}  // namespace safetensors::os
