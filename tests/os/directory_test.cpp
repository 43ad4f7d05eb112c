// Lists directories, hides names with a leading dot, and expands patterns.
#include "os/directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "os/descriptor.h"
#include "os/file_status.h"
#include "os/open.h"
#include "support/io_support.h"

namespace safetensors::os {
namespace {

using test::put;
using test::TemporaryDirectory;
using Names = std::vector<std::string>;

class Directory : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"d1", "d2", ".hidden"}) ASSERT_EQ(::mkdir(at(folder).c_str(), 0700), 0);
    for (const char* file : {"d1/b", "d1/a", "d2/a", "d1/.c", ".hidden/a", "file"}) put(at(file), "");
  }
  std::string at(std::string_view name) const { return directory_ / name; }
  Names expand(std::string_view pattern) const {
    Names names;
    for (const std::string& path : expand_pattern(at(pattern)).value())
      names.push_back(path.substr(directory_.path().size() + 1));
    return names;
  }
  TemporaryDirectory directory_;
};

TEST_F(Directory, ListsVisibleEntries) {
  EXPECT_EQ(list_directory(at("d1")).value(), (Names{"a", "b"}));
  EXPECT_EQ(list_directory(directory_.path()).value(), (Names{"d1", "d2", "file"}));
  const Error error = test::error_of(list_directory(at("none")));
  EXPECT_EQ(error.code, Errc::open_failed);
  EXPECT_EQ(error.path, at("none"));
  EXPECT_EQ(error.message, "cannot open: no such file or directory");
  EXPECT_EQ(test::error_of(list_directory(at("file"))).os_error, ENOTDIR);
}

TEST_F(Directory, ListsOnlyDirectories) {
  Descriptor file(open_at(kWorkingDirectory, at("file").c_str(), OpenFlags::read));
  const int number = file.get();
  bool begun = false;
  EXPECT_EQ(visit_names(
                std::move(file), [](std::string_view) { return true; }, begun),
            ENOTDIR);
  EXPECT_FALSE(begun);
  EXPECT_EQ(::close(number), -1);  // it was closed, once
}

TEST_F(Directory, FindsOpenFiles) {
  const Descriptor file(open_at(kWorkingDirectory, at("file").c_str(), OpenFlags::read));
  FileStatus expected;
  ASSERT_EQ(status_of(file.get(), expected), 0);
  const auto count = [&] {
    const Names paths = paths_of_open_files().value();
    return std::count_if(paths.begin(), paths.end(), [&](const std::string& path) {
      FileStatus found;
      return status_of_path(path.c_str(), Symlinks::follow, found) == 0 && found.identity == expected.identity;
    });
  };
  EXPECT_EQ(count(), 1);
  const Descriptor again(open_at(kWorkingDirectory, at("file").c_str(), OpenFlags::read));
  EXPECT_EQ(count(), 2);
}

TEST_F(Directory, ReadsLinks) {
  ASSERT_EQ(::symlink("to/somewhere", at("link").c_str()), 0);
  const Descriptor folder(open_at(kWorkingDirectory, directory_.path().c_str(), kOpenDirectory));
  std::string target = "before";
  EXPECT_EQ(read_link_at(folder.get(), "link", target), 0);
  EXPECT_EQ(target, "to/somewhere");
  EXPECT_EQ(read_link_at(folder.get(), "file", target), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(read_link_at(folder.get(), "none", target), -1);
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(Directory, ExpandsComponentByComponent) {
  EXPECT_EQ(expand("*/a"), (Names{"d1/a", "d2/a"}));
  EXPECT_EQ(expand("*/*"), (Names{"d1/a", "d1/b", "d2/a"}));
  EXPECT_EQ(expand("d1/.*"), Names{"d1/.c"});
  for (const char* pattern : {"d1/?c", "d1/[.]c", "d1/[!a-b]*"}) EXPECT_EQ(expand(pattern), Names()) << pattern;
  EXPECT_EQ(expand(".h*/a"), Names{".hidden/a"});
  EXPECT_EQ(expand("d[12]//a"), (Names{"d1//a", "d2//a"}));
  EXPECT_EQ(expand("*/"), (Names{"d1/", "d2/"}));
  EXPECT_EQ(expand("file/*"), Names());
  EXPECT_EQ(expand("none/*"), Names());
  EXPECT_EQ(expand("*/none"), Names());
}

// Root may list everything, so the question is put as somebody else.
TEST_F(Directory, PatternNeedsPermissionToList) {
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(at("d2").c_str(), 0755), 0);
  ASSERT_EQ(::chmod(at("d1").c_str(), 0111), 0);
  EXPECT_EQ(test::in_child([&] {
              if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
              return expand("d?/*") == Names{"d2/a"} && test::error_of(expand_pattern(at("d1/*"))).os_error == EACCES;
            }),
            0);
  ASSERT_EQ(::chmod(at("d1").c_str(), 0700), 0);
}

TEST_F(Directory, ExpandsFromWorkingDirectory) {
  char before[4096];
  ASSERT_NE(::getcwd(before, sizeof before), nullptr);
  ASSERT_EQ(::chdir(directory_.path().c_str()), 0);
  EXPECT_EQ(expand_pattern("d?/a").value(), (Names{"d1/a", "d2/a"}));
  EXPECT_EQ(expand_pattern("./f*").value(), Names{"./file"});
  ASSERT_EQ(::chdir(before), 0);
}

TEST_F(Directory, TellsKindOfPath) {
  ASSERT_EQ(::symlink("nowhere", at("dangling").c_str()), 0);
  ASSERT_EQ(::symlink("d1", at("link").c_str()), 0);
  EXPECT_EQ(kind_of(at("d1")), PathKind::directory);
  EXPECT_EQ(kind_of(at("link")), PathKind::directory);
  EXPECT_EQ(kind_of(at("file")), PathKind::other);
  EXPECT_EQ(kind_of(at("dangling")), PathKind::other);
  EXPECT_EQ(kind_of(at("none")), PathKind::nothing);
  EXPECT_EQ(kind_of(at("file/none")), PathKind::nothing);
  EXPECT_EQ(kind_of(std::string(5000, 'x')), PathKind::nothing);
}

TEST(Path, IsJoinedByOneSeparator) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("", "b"), "b");
  EXPECT_EQ(join_path("/", "b"), "/b");
}

}  // namespace
}  // namespace safetensors::os
