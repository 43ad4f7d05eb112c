// Maps and memory on a system with pages of 16 KiB. This program replaces sysconf(), which tells the size of a page,
// and mmap(): its maps begin at multiples of 16 KiB, in memory and in the file. The real system accepts such numbers.
// Only where this system call takes the arguments of mmap(). Sanitizers replace the same functions.
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SAFETENSORS_SANITIZED
#endif
#endif
#ifndef SAFETENSORS_SANITIZED
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>

#include "os/memory.h"
#include "os/regular_file.h"
#include "support/io_support.h"

namespace {
constexpr long kPage = 16 << 10;
}

extern "C" long sysconf(int name) noexcept {
  static auto* const real = reinterpret_cast<long (*)(int)>(::dlsym(RTLD_NEXT, "sysconf"));
  return name == _SC_PAGESIZE ? kPage : real(name);
}

extern "C" void* mmap(void* address, std::size_t size, int protection, int flags, int file, off_t offset) noexcept {
  const auto map = [](void* begin, std::size_t bytes, int access, int how, int descriptor, off_t at) {
    return reinterpret_cast<void*>(::syscall(SYS_mmap, begin, bytes, access, how, descriptor, at));
  };
  if (address != nullptr) return map(address, size, protection, flags, file, offset);
  if (offset % kPage != 0) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  void* const reserved = map(nullptr, size + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED) return MAP_FAILED;
  const auto aligned = (reinterpret_cast<std::uintptr_t>(reserved) + kPage - 1) / kPage * kPage;
  return map(reinterpret_cast<void*>(aligned), size, protection, flags | MAP_FIXED, file, offset);
}

namespace safetensors::test {
namespace {

TEST(PageSize, MapsAtAnyOffset) {
  ASSERT_EQ(os::page_size(), std::size_t{kPage});
  std::string text;
  for (int i = 0; i < 5 * kPage + 100; ++i) text += static_cast<char>(i * 7 % 251);
  const TemporaryDirectory directory;
  put(directory / "a", text);
  const auto file = os::RegularFile::open(directory / "a").value();
  for (const std::uint64_t offset : std::initializer_list<std::uint64_t>{0, 1, 4096, 8191, 16384, 20000, 49151}) {
    for (const auto mode : {os::MapMode::shared, os::MapMode::copy_on_write}) {
      const auto map = file->map(offset, 2 * kPage + 5, mode);
      ASSERT_TRUE(succeeds(map));
      EXPECT_EQ(std::memcmp(map->bytes.data(), text.data() + offset, map->bytes.size()), 0) << offset;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(map->bytes.data()) % kPage, offset % kPage);
      os::give_up_pages(map->bytes);
      if (mode == os::MapMode::shared) {
        EXPECT_EQ(std::memcmp(map->bytes.data(), text.data() + offset, map->bytes.size()), 0) << offset;
      }
    }
  }
}

TEST(PageSize, RoundsMemoryUp) {
  const os::Pages pages = os::map_pages(os::kHugePage + 1);
  ASSERT_NE(pages.begin, nullptr);
  EXPECT_EQ(pages.size, os::kHugePage + kPage);
  std::memset(pages.begin, 1, pages.size);
  os::unmap_pages(pages);
  // The system knows no mapping at the last page any more.
  EXPECT_EQ(::msync(pages.begin + pages.size - kPage, kPage, MS_ASYNC), -1);
  EXPECT_EQ(errno, ENOMEM);
}

}  // namespace
}  // namespace safetensors::test
#endif
#endif
