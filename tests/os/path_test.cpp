// Paths as text. The rules of Windows need no file, so they are tested there only.
#include "os/path.h"

#include <gtest/gtest.h>

#include <string>

namespace {

namespace os = safetensors::os;

#ifdef _WIN32

TEST(Path, GenericPathHasOneSeparator) {
  EXPECT_EQ(os::generic_path("a\\b/c\\"), "a/b/c/");
  EXPECT_EQ(os::generic_path(""), "");
}

TEST(Path, DriveAndShareAreAbsolute) {
  for (const char* path : {"C:/x", "c:\\", "//server/share", "\\\\?\\C:\\x"})
    EXPECT_TRUE(os::is_absolute(path)) << path;
  for (const char* path : {"", "x", "/x", "C:", "C:x", "./C:/x"}) EXPECT_FALSE(os::is_absolute(path)) << path;
}

TEST(Path, AbsolutePathStaysInItsRoot) {
  EXPECT_EQ(os::absolute_path("C:\\a\\..\\..\\b\\.\\c"), "C:/b/c");
  EXPECT_EQ(os::absolute_path("C:/.."), "C:/");
  EXPECT_EQ(os::absolute_path("//server/share/../a"), "//server/share/a");
  EXPECT_EQ(os::absolute_path("//server//share/a"), "//server/share/a");
  EXPECT_EQ(os::absolute_path("\\\\?\\UNC\\server\\share\\a"), "//server/share/a");
  EXPECT_TRUE(os::is_absolute(os::absolute_path("a")));
}

TEST(Path, KeepsDotsAndSpacesAtEndOfNames) {
  EXPECT_EQ(os::absolute_path("C:/a. /b..."), "C:/a. /b...");
}

TEST(Path, KeepsPrefixOfVolumeWithoutLetter) {
  EXPECT_EQ(os::absolute_path("\\\\?\\Volume{1}\\a"), "//?/Volume{1}/a");
  EXPECT_EQ(os::absolute_path("//?/Volume{1}/a"), "//?/Volume{1}/a");
  EXPECT_EQ(os::absolute_path("\\\\?\\C:\\a"), "C:/a");
}

TEST(Path, RefusesDevicesAndStreams) {
  // The function returns a path that Windows may not open as it is.
  for (const char* path : {"C:/NUL", "C:/com1.safetensors", "C:/a:b", "\\\\.\\C:"})
    EXPECT_EQ(os::absolute_path(path), path);
}

#else

TEST(Path, BackslashIsPartOfName) {
  EXPECT_EQ(os::generic_path("a\\b"), "a\\b");
}

TEST(Path, SlashMakesPathAbsolute) {
  EXPECT_TRUE(os::is_absolute("/"));
  for (const char* path : {"", "x", "C:/x", "\\x"}) EXPECT_FALSE(os::is_absolute(path)) << path;
  EXPECT_EQ(os::absolute_path("/a/../b"), "/a/../b");
  EXPECT_TRUE(os::is_absolute(os::absolute_path("a")));
}

#endif

}  // namespace
