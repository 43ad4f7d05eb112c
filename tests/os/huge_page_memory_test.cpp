// Memory in huge pages: the addresses of results, and the time at which their memory is free again, but never earlier.
// Also the pages that provide_untouched() provides.
#include "os/huge_page_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "os/memory.h"
#include "support/io_support.h"

namespace safetensors::os {
namespace {

using test::succeeds;
using Memory = std::shared_ptr<std::byte>;

std::vector<MemoryRequest> requests_of(const std::vector<std::uint64_t>& sizes) {
  std::vector<MemoryRequest> requests;
  for (const std::uint64_t size : sizes) requests.push_back({.size = size});
  return requests;
}

std::vector<Memory> placed(std::vector<MemoryRequest> requests) {
  EXPECT_TRUE(succeeds(place(requests)));
  std::vector<Memory> memories;
  for (MemoryRequest& request : requests) memories.push_back(std::move(request.memory));
  return memories;
}

std::uint64_t address(const Memory& memory) {
  return reinterpret_cast<std::uintptr_t>(memory.get());
}

// How many bytes of the system's small pages are really there.
std::uint64_t resident(const std::byte* begin, std::size_t size) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> present((size + page - 1) / page);
  EXPECT_EQ(::mincore(const_cast<std::byte*>(begin), size, present.data()), 0);
  return page *
         static_cast<std::uint64_t>(std::ranges::count_if(present, [](unsigned char c) { return (c & 1) != 0; }));
}

TEST(HugePageMemory, PacksAtMultiplesOf64) {
  const std::vector<Memory> memories = placed(requests_of({1, 64, 65, 0, 1000, kHugePage, 3}));
  EXPECT_EQ(address(memories[0]) % kHugePage, 0U);
  EXPECT_EQ(memories[1].get() - memories[0].get(), 64);
  EXPECT_EQ(memories[2].get() - memories[1].get(), 64);
  EXPECT_EQ(memories[3], nullptr);
  EXPECT_EQ(memories[4].get() - memories[2].get(), 128);
  EXPECT_EQ(memories[5].get() - memories[4].get(), 1024);
  EXPECT_EQ(memories[6].get() - memories[5].get(), static_cast<std::ptrdiff_t>(kHugePage));
}

TEST(HugePageMemory, PutsRequestsInTheirPhase) {
  for (const std::uint64_t scale : {std::uint64_t{1}, std::uint64_t{5000}}) {
    std::vector<MemoryRequest> requests;
    std::mt19937 random(7);
    for (int i = 0; i < 300; ++i)
      requests.push_back({.size = random() % 3 * scale + 1,
                          .phase = i % 3 == 0 ? MemoryRequest::kAnyPhase
                                              : static_cast<std::uint32_t>(random() % 64 * MemoryRequest::kAlignment)});
    ASSERT_TRUE(succeeds(place(requests)));
    const std::byte* end = nullptr;
    for (const MemoryRequest& request : requests) {
      const bool any = request.phase == MemoryRequest::kAnyPhase;
      EXPECT_EQ(address(request.memory) % (any ? MemoryRequest::kAlignment : MemoryRequest::kPhase),
                any ? 0U : request.phase);
      EXPECT_GE(request.memory.get(), end);
      EXPECT_TRUE(end == nullptr || request.memory.get() - end < 4096 + 64);
      end = request.memory.get() + request.size;
    }
  }
}

TEST(HugePageMemory, KeepsPagesOfSurvivorsOnly) {
  std::vector<Memory> memories = placed(requests_of(std::vector<std::uint64_t>(33, std::uint64_t{1} << 20)));
  std::byte* const begin = memories[0].get();
  for (const Memory& memory : memories) std::memset(memory.get(), 1, 1 << 20);
  EXPECT_EQ(resident(begin, 33 << 20), 33U << 20);
  const Memory copy(memories[17], memories[17].get() + 50);  // shares the owner
  const Memory last = memories[32];                          // on a page that is shorter than a huge one
  memories.clear();
  EXPECT_EQ(resident(begin, 33 << 20), kHugePage + (1U << 20));
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(copy.get()[i], std::byte{1});
  EXPECT_EQ(last.get()[(1 << 20) - 1], std::byte{1});
}

TEST(HugePageMemory, RefusesImpossibleSizes) {
  constexpr std::uint64_t kMost = ~std::uint64_t{0};
  struct Case {
    std::vector<std::uint64_t> sizes;
    const char* message;
  };
  for (const Case& want :
       {Case{{kMost}, "cannot allocate 18446744073709551615 bytes"},
        Case{{10, kMost - 5}, "cannot allocate 18446744073709551615 bytes"},
        Case{{std::uint64_t{1} << 62, std::uint64_t{1} << 62, std::uint64_t{1} << 63},
             "cannot allocate 18446744073709551615 bytes"},
        Case{{std::uint64_t{1} << 63, std::uint64_t{1} << 63}, "cannot allocate 18446744073709551615 bytes"},
        Case{{100, std::uint64_t{1} << 62}, "cannot allocate 4611686018427388032 bytes"}}) {
    std::vector<MemoryRequest> requests = requests_of(want.sizes);
    const Error error = test::error_of(place(requests));
    EXPECT_EQ(error.code, Errc::out_of_memory);
    EXPECT_EQ(error.message, want.message);
    for (const MemoryRequest& request : requests) EXPECT_EQ(request.memory, nullptr);
  }
}

// Neighbours on one page are released at the same time, half of them first in a forked child.
TEST(HugePageMemory, AnyThreadAndAForkedChildMayRelease) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::vector<Memory> memories = placed(requests_of(std::vector<std::uint64_t>(64, kHugePage / 8 - 64)));
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = t; i < memories.size(); i += 4) {
          std::memset(memories[i].get(), static_cast<int>(i), kHugePage / 8 - 64);
          if (i % 8 < 4) memories[i].reset();
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(test::in_child([&] { return memories.clear(), true; }), 0);
    for (std::size_t i = 0; i < memories.size(); ++i)
      ASSERT_TRUE(!memories[i] || memories[i].get()[1000] == static_cast<std::byte>(i));
  }
}

TEST(ProvideUntouched, ProvidesWholePagesOnce) {
  const Pages pages = map_pages(2 * kHugePage);
  ASSERT_NE(pages.begin, nullptr);
  const std::size_t page = page_size();
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which older headers lack
  if (::madvise(pages.begin, page, kPopulateWrite) != 0 || resident(pages.begin, page) != page)
    GTEST_SKIP() << "MADV_POPULATE_WRITE does nothing: before Linux 5.14, or under qemu";
  (void)::madvise(pages.begin, pages.size, MADV_NOHUGEPAGE);
  (void)::madvise(pages.begin, pages.size, MADV_DONTNEED);
  provide_untouched({pages.begin, 65535});
  EXPECT_EQ(resident(pages.begin, pages.size), 0U);
  provide_untouched({pages.begin + 1, 16 * page + 65536});  // all but the first page, and the last one
  EXPECT_EQ(resident(pages.begin, pages.size), (16 * page + 65536) / page * page - page);
  EXPECT_TRUE(std::all_of(pages.begin, pages.begin + pages.size, [](std::byte byte) { return byte == std::byte{0}; }));
  std::fill_n(pages.begin, pages.size, std::byte{7});
  provide_untouched({pages.begin, pages.size});  // its middle page is there
  EXPECT_TRUE(std::all_of(pages.begin, pages.begin + pages.size, [](std::byte byte) { return byte == std::byte{7}; }));
  unmap_pages(pages);
}

}  // namespace
}  // namespace safetensors::os
