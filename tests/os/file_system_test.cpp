// The file systems that every machine has, and the numbers of others.
#include "os/file_status.h"

#include <gtest/gtest.h>
#include <sys/vfs.h>

#include "os/descriptor.h"
#include "os/open.h"
#include "os/system.h"

namespace safetensors::os {
namespace {

Descriptor open_directory(const char* path) {
  return Descriptor(open_at(kWorkingDirectory, path, kOpenDirectory));
}

TEST(FileSystem, CountsNetworkAndFuseAsRemote) {
  for (const std::uint64_t magic :
       std::initializer_list<std::uint64_t>{0x6969, 0x517B, 0x65735546, 0x01021997, 0x00C36400, 0x0BD00BD0, 0x47504653})
    EXPECT_EQ(classify_file_system(magic), FileSystem::remote) << magic;
  for (const std::uint64_t magic : {0xFE534D42, 0xFF534D42})
    EXPECT_EQ(classify_file_system(magic), FileSystem::remote) << magic;
}

TEST(FileSystem, CountsDisksAndTmpfsAsLocal) {
  for (const std::uint64_t magic : {0xEF53u, 0x58465342u, 0x9123683Eu, 0x01021994u})
    EXPECT_EQ(classify_file_system(magic), FileSystem::local) << magic;
}

TEST(FileSystem, IsKernelInProc) {
  const Descriptor proc = open_directory("/proc");
  EXPECT_EQ(file_system_of(proc.get()), FileSystem::kernel);
}

TEST(FileSystem, IsInMemoryOnTmpfs) {
  struct statfs status;
  if (::statfs("/dev/shm", &status) != 0 || static_cast<std::uint32_t>(status.f_type) != 0x01021994)
    GTEST_SKIP() << "no tmpfs at /dev/shm";
  const Descriptor memory = open_directory("/dev/shm");
  EXPECT_EQ(file_system_of(memory.get()), FileSystem::local);
  DirectAlignment alignment;
  EXPECT_EQ(direct_alignment(memory.get(), alignment), 0);
  EXPECT_TRUE(alignment.known && alignment.offset == 0);
}

TEST(FileSystem, IsLocalAfterError) {
  EXPECT_EQ(file_system_of(-1), FileSystem::local);
}

}  // namespace
}  // namespace safetensors::os
