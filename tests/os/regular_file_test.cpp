// Reading regular files, refusing everything else, and owned memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/memory_resource.h"
#include "os/descriptor.h"
#include "os/file_status.h"
#include "os/memory.h"
#include "os/regular_file.h"
#include "os/system_error.h"
#include "support/io_support.h"

namespace safetensors::test {
namespace {

using os::Descriptor;
using os::MapMode;
using os::RegularFile;

Error open_error(const std::string& path) {
  return error_of(RegularFile::open(path));
}

std::string read(const Source& source, std::uint64_t offset, std::size_t size) {
  std::string text(size, '?');
  EXPECT_TRUE(succeeds(os::read_exactly(source, offset, std::as_writable_bytes(std::span(text)))));
  return text;
}

TEST(RegularFile, ReadsAtAnyOffset) {
  const TemporaryDirectory directory;
  put(directory / "a", "0123456789");
  const auto file = RegularFile::open(directory / "a");
  ASSERT_TRUE(succeeds(file));
  EXPECT_EQ((*file)->size().value(), 10u);
  EXPECT_EQ(read(**file, 0, 10), "0123456789");
  EXPECT_EQ(read(**file, 7, 3), "789");
  EXPECT_EQ(read(**file, 10, 0), "");
}

TEST(RegularFile, ReadsShortAtEnd) {
  const TemporaryDirectory directory;
  put(directory / "a", "0123456789");
  const auto file = RegularFile::open(directory / "a").value();
  std::byte buffer[8];
  EXPECT_EQ(file->read_at(6, buffer).value(), 4u);
  EXPECT_EQ(file->read_at(10, buffer).value(), 0u);
  EXPECT_EQ(file->read_at(~std::uint64_t{0}, buffer).value(), 0u);
  EXPECT_EQ(file->read_at(std::uint64_t{1} << 63, buffer).value(), 0u);
  EXPECT_EQ(file->read_at((std::uint64_t{1} << 63) - 2, buffer).value(), 0u);
}

TEST(RegularFile, RefusesTooLongName) {
  EXPECT_EQ(open_error("/tmp/" + std::string(300, 'x')).os_error, ENAMETOOLONG);
}

// Root may read everything, so the question is put as somebody else.
TEST(RegularFile, ReportsMissingPermission) {
  const TemporaryDirectory directory;
  put(directory / "a", "secret");
  ASSERT_EQ(::chmod((directory / "a").c_str(), 0), 0);
  ASSERT_EQ(::chmod(directory.path().c_str(), 0755), 0);
  EXPECT_EQ(in_child([&] {
              if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
              const auto file = RegularFile::open(directory / "a");
              return !file && file.error().code == Errc::open_failed && file.error().os_error == EACCES &&
                     file.error().message == "cannot open: permission denied";
            }),
            0);
}

TEST(RegularFile, RefusesDirectory) {
  const TemporaryDirectory directory;
  const Error error = open_error(directory.path());
  EXPECT_EQ(error.code, Errc::not_regular_file);
  EXPECT_EQ(error.os_error, EISDIR);
  EXPECT_EQ(error.message, "not a regular file but a directory");
  EXPECT_EQ(error.path, directory.path());
}

TEST(RegularFile, RefusesSpecialFilesWithoutWaiting) {
  const TemporaryDirectory directory;
  put(directory / "a", "");
  ASSERT_EQ(::symlink("loop", (directory / "loop").c_str()), 0);
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT((directory / "socket").size(), sizeof address.sun_path);
  std::strcpy(address.sun_path, (directory / "socket").c_str());
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const std::string made_up = "not a regular file but one that the kernel makes up (/proc, /sys)";
  const std::pair<std::string, std::string> cases[] = {
      {directory / "loop", "cannot open: too many levels of symbolic links"},
      {directory / "a/b", "cannot open: not a directory"},
      {directory / "a/", "cannot open: not a directory"},
      {directory / "fifo", "not a regular file but a FIFO"},
      {directory / "socket", "not a regular file but a socket"},
      {"/proc/self/status", made_up},
      {"/sys/kernel/mm/transparent_hugepage/enabled", made_up},
  };
  for (const auto& [path, message] : cases) {
    if (message == made_up && ::access(path.c_str(), F_OK) != 0) continue;
    const Error error = open_error(path);
    EXPECT_EQ(error.code, message.starts_with("cannot") ? Errc::open_failed : Errc::not_regular_file) << path;
    EXPECT_EQ(error.message, message) << path;
  }
}

TEST(RegularFile, DuplicatesDescriptor) {
  const TemporaryDirectory directory;
  put(directory / "a", "0123456789");
  Descriptor mine(::open((directory / "a").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::lseek(mine.get(), 3, SEEK_SET), 3);
  const auto file = RegularFile::from_fd(mine.get());
  ASSERT_TRUE(succeeds(file));
  EXPECT_NE((*file)->lease().value().get(), mine.get());
  EXPECT_NE(::fcntl((*file)->lease().value().get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(read(**file, 5, 5), "56789");
  EXPECT_EQ(::lseek(mine.get(), 0, SEEK_CUR), 3);
  mine.reset();
  EXPECT_EQ(read(**file, 0, 2), "01");
}

TEST(RegularFile, RefusesUnreadableDescriptor) {
  const TemporaryDirectory directory;
  const Descriptor writing(::open((directory / "a").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const Error error = error_of(RegularFile::from_fd(writing.get()));
  EXPECT_EQ(error.code, Errc::open_failed);
  EXPECT_EQ(error.message, "descriptor " + std::to_string(writing.get()) + " is not open for reading");

  const Descriptor path(::open((directory / "a").c_str(), O_PATH | O_CLOEXEC));
  EXPECT_EQ(error_of(RegularFile::from_fd(path.get())).code, Errc::open_failed);
}

TEST(RegularFile, RefusesInvalidDescriptor) {
  const Error error = error_of(RegularFile::from_fd(-1));
  EXPECT_EQ(error.code, Errc::open_failed);
  EXPECT_EQ(error.os_error, EBADF);
  EXPECT_EQ(error.message, "cannot use descriptor -1: bad file descriptor");
}

TEST(RegularFile, RefusesPipe) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Descriptor reading(ends[0]);
  const Descriptor writing(ends[1]);
  const Error error = error_of(RegularFile::from_fd(reading.get()));
  EXPECT_EQ(error.code, Errc::not_regular_file);
  EXPECT_EQ(error.message, "not a regular file but a FIFO");
}

TEST(RegularFile, IdentifiesReplacedAndChangedFiles) {
  const TemporaryDirectory directory;
  put(directory / "a", "abc");
  put(directory / "b", "abc");
  const auto first = RegularFile::open(directory / "a").value()->identity();
  EXPECT_EQ(RegularFile::open(directory / "a").value()->identity(), first);
  EXPECT_FALSE(RegularFile::open(directory / "b").value()->identity().same_file(first));
  put(directory / "a", "abcd");
  const auto later = RegularFile::open(directory / "a").value()->identity();
  EXPECT_TRUE(later.same_file(first));
  EXPECT_NE(later, first);
}

TEST(Mapping, CoversAnyRangeAndOutlivesFile) {
  const TemporaryDirectory directory;
  std::string text(3 * 4096 + 5, 'x');
  text[5000] = 'a', text[5001] = 'b';
  put(directory / "a", text);
  auto file = RegularFile::open(directory / "a").value();
  auto mapping = file->map(5000, 2, MapMode::shared).value();
  auto whole = file->map(0, text.size(), MapMode::shared).value();
  file.reset();
  EXPECT_EQ(text_of(mapping.bytes), "ab");
  EXPECT_EQ(text_of(whole.bytes), text);
  const std::shared_ptr<const void> owner = std::move(mapping.owner);
  EXPECT_EQ(text_of(mapping.bytes), "ab");
}

// The flags of the mapping at an address, as the system tells them. Empty if it does not.
std::string flags_of(const void* address) {
  std::ifstream lines("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool found = false;
  for (std::string line; std::getline(lines, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &begin, &end) == 2)
      found = begin <= wanted && wanted < end;
    else if (found && line.starts_with("VmFlags:"))
      return line + " ";
  }
  return {};
}

// No program has read this file, so no byte is cached. With " sr " (MADV_SEQUENTIAL), several threads would wait for
// each window of it.
TEST(RegularFile, LeavesReadAheadOfMapsToFile) {
  const TemporaryDirectory directory;
  put(directory / "a", "x");
  ASSERT_EQ(::truncate((directory / "a").c_str(), 8 << 20), 0);
  const auto file = RegularFile::open(directory / "a").value();
  for (const MapMode mode : {MapMode::shared, MapMode::copy_on_write}) {
    const auto mapping = file->map(4097, 7 << 20, mode).value();
    if (flags_of(mapping.bytes.data()).empty()) GTEST_SKIP() << "the system does not tell the flags of mappings";
    EXPECT_EQ(flags_of(mapping.bytes.data()).find(" sr "), std::string::npos);
  }
}

TEST(Mapping, MayBeEmpty) {
  const TemporaryDirectory directory;
  put(directory / "a", "");
  const auto mapping = RegularFile::open(directory / "a").value()->map(0, 0, MapMode::shared);
  ASSERT_TRUE(succeeds(mapping));
  EXPECT_TRUE(mapping->bytes.empty());
}

TEST(Mapping, RefusesRangePastEnd) {
  const TemporaryDirectory directory;
  put(directory / "a", "0123456789");
  const auto file = RegularFile::open(directory / "a").value();
  ASSERT_EQ(::truncate((directory / "a").c_str(), 4), 0);
  const Error error = error_of(file->map(2, 8, MapMode::shared));
  EXPECT_EQ(error.code, Errc::file_truncated);
  EXPECT_EQ(error.offset, 4u);
  EXPECT_EQ(error.message, "file became shorter: 8 bytes at byte 2 were asked for, it now ends at byte 4");
  EXPECT_EQ(error_of(file->map(~std::uint64_t{0}, 2, MapMode::shared)).code, Errc::file_truncated);
}

TEST(Mapping, ReportsErrnoOfRefusal) {
  const TemporaryDirectory directory;
  put(directory / "a", "0123456789");
  EXPECT_EQ(in_child([&] {
              const auto file = RegularFile::open(directory / "a").value();
              ::truncate((directory / "a").c_str(), off_t{1} << 40);
              const rlimit limit{std::uint64_t{1} << 38, std::uint64_t{1} << 38};
              if (::setrlimit(RLIMIT_AS, &limit) != 0) return true;  // as under the sanitizers, which need more
              const auto mapping = file->map(0, std::uint64_t{1} << 40, MapMode::shared);
              return !mapping && mapping.error().code == Errc::map_failed && mapping.error().os_error == ENOMEM;
            }),
            0);
}

TEST(SystemError, DescribesUnknownErrno) {
  EXPECT_EQ(os::describe_errno(ENOSPC), "no space left on device");
  EXPECT_EQ(os::describe_errno(12345), "system error 12345");
}

TEST(Memory, AlignsSmallBlocksAsRequested) {
  for (const std::size_t alignment : std::initializer_list<std::size_t>{1, 8, 64, 4096}) {
    const auto memory = os::allocate(100, alignment).value();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % alignment, 0u);
    std::memset(memory.get(), 1, 100);
  }
  EXPECT_TRUE(succeeds(os::allocate(0)));
}

TEST(Memory, AlignsLargeBlocksToPages) {
  for (const std::size_t size : {os::kHugePage, os::kHugePage + 1, 5 * os::kHugePage - 1}) {
    const auto memory = os::allocate(size).value();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % os::page_size(), 0u);
    memory.get()[0] = memory.get()[size - 1] = std::byte{1};
  }
}

TEST(Memory, ThreadsGetLargeBlocksOfTheirOwn) {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const auto work = [&](std::byte mark) {
    std::vector<std::span<std::byte>> kept;
    std::vector<std::shared_ptr<std::byte>> owners;
    for (std::size_t i = 0; i < 60; ++i) {
      const std::size_t size = (2 + i * 7 % 15) * kMiB + 4096;
      owners.push_back(os::allocate(size).value());
      kept.emplace_back(owners.back().get(), size);
      for (std::size_t at = 0; at < size; at += kMiB) {
        EXPECT_EQ(kept.back()[at], std::byte{0});
        kept.back()[at] = mark;
      }
      if (kept.size() < 4) continue;
      const std::size_t gone = i % 4;  // in changing order
      for (std::size_t at = 0; at < kept[gone].size(); at += kMiB) EXPECT_EQ(kept[gone][at], mark);
      kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(gone));
      owners.erase(owners.begin() + static_cast<std::ptrdiff_t>(gone));
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i <= 4; ++i) threads.emplace_back(work, std::byte(i));
  for (std::thread& thread : threads) thread.join();
}

TEST(MemorySize, IsSmallerThanMachine) {
  EXPECT_GE(os::memory_size(), std::uint64_t{16} << 20);
  EXPECT_TRUE(os::fits_in_machine(os::memory_size()));
}

TEST(Memory, RefusesMoreThanMachineHas) {
  const Error error = error_of(os::allocate(std::uint64_t{5} << 40));
  EXPECT_EQ(error.code, Errc::out_of_memory);
  EXPECT_EQ(error.message, "cannot allocate 5497558138880 bytes");
  EXPECT_EQ(error_of(os::allocate(~std::uint64_t{0})).code, Errc::out_of_memory);
  EXPECT_EQ(error_of(os::allocate(std::uint64_t{1} << 63)).code, Errc::out_of_memory);
}

TEST(Memory, ServesSmallAndLargeBlocks) {
  safetensors::base::MemoryResource& resource = os::large_memory();
  EXPECT_EQ(&resource, &os::large_memory());
  void* const small = resource.allocate(10, 8);
  void* const large = resource.allocate(3 * os::kHugePage, 64);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large) % os::kHugePage, 0u);
  resource.deallocate(large, 3 * os::kHugePage, 64);
  resource.deallocate(small, 10, 8);
  const volatile std::size_t too_large = std::numeric_limits<std::size_t>::max() / 4 * 3;  // GCC refuses a constant
  EXPECT_THROW((void)resource.allocate(too_large, 64), std::bad_alloc);
}

}  // namespace
}  // namespace safetensors::test
