// The allocator of huge pages: the addresses of allocations, and the time at which their memory is free again, but
// never earlier.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "os/huge_page_allocator.h"
#include "support/io_support.h"

namespace safetensors::os {
namespace {

using test::succeeds;
using Request = HugePageAllocator::Request;
using Memory = std::shared_ptr<std::byte>;

std::vector<Request> requests_of(const std::vector<std::uint64_t>& sizes) {
  std::vector<Request> requests;
  for (const std::uint64_t size : sizes) requests.push_back({.size = size});
  return requests;
}

std::vector<Memory> place(HugePageAllocator& allocator, const std::vector<std::uint64_t>& sizes) {
  std::vector<Request> requests = requests_of(sizes);
  EXPECT_TRUE(succeeds(allocator.place(requests)));
  std::vector<Memory> memories;
  for (Request& request : requests) memories.push_back(std::move(request.memory));
  return memories;
}

Memory place_one(HugePageAllocator& allocator, std::uint64_t size) {
  return place(allocator, {size}).front();
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

TEST(HugePageAllocator, PacksAtMultiplesOf64) {
  HugePageAllocator allocator;
  const std::vector<Memory> memories = place(allocator, {1, 64, 65, 0, 1000, kHugePage, 3});
  EXPECT_EQ(address(memories[0]) % kHugePage, 0U);
  EXPECT_EQ(memories[1].get() - memories[0].get(), 64);
  EXPECT_EQ(memories[2].get() - memories[1].get(), 64);
  EXPECT_EQ(memories[3], nullptr);
  EXPECT_EQ(memories[4].get() - memories[2].get(), 128);
  EXPECT_EQ(memories[5].get() - memories[4].get(), 1024);
  EXPECT_EQ(memories[6].get() - memories[5].get(), static_cast<std::ptrdiff_t>(kHugePage));
  EXPECT_EQ(allocator.reserved_bytes(), 2 * kHugePage);
  EXPECT_EQ(allocator.live_bytes(), 2 * kHugePage);
}

TEST(HugePageAllocator, PutsRequestsInTheirPhase) {
  for (const bool once : {false, true}) {
    for (const std::uint64_t scale : {std::uint64_t{1}, std::uint64_t{5000}}) {
      std::vector<Request> requests;
      std::mt19937 random(7);
      for (int i = 0; i < 300; ++i)
        requests.push_back({.size = random() % 3 * scale + 1,
                            .phase = i % 3 == 0 ? Request::kAnyPhase : static_cast<std::uint32_t>(random() % 64 * 64)});
      HugePageAllocator allocator;
      bool huge = false;
      ASSERT_TRUE(succeeds(once ? HugePageAllocator::place_once(requests, huge) : allocator.place(requests)));
      const std::byte* end = nullptr;
      for (const Request& request : requests) {
        EXPECT_EQ(address(request.memory) % (request.phase == Request::kAnyPhase ? 64U : 4096U),
                  request.phase == Request::kAnyPhase ? 0U : request.phase);
        EXPECT_GE(request.memory.get(), end);
        EXPECT_TRUE(end == nullptr || request.memory.get() - end < 4096 + 64);
        end = request.memory.get() + request.size;
      }
    }
  }
}

TEST(HugePageAllocator, ReusesPagesWhenAllIsFreed) {
  HugePageAllocator allocator;
  std::vector<Memory> first = place(allocator, {kHugePage / 2, kHugePage / 2});
  std::byte* const begin = first[0].get();
  first[0].reset();
  EXPECT_NE(place_one(allocator, kHugePage).get(), begin);
  EXPECT_EQ(allocator.live_bytes(), kHugePage);
  first[1].reset();
  EXPECT_EQ(allocator.live_bytes(), 0U);
  EXPECT_EQ(place_one(allocator, kHugePage).get(), begin);
}

TEST(HugePageAllocator, KeepsMemoryOfCopiedOwner) {
  HugePageAllocator allocator;
  const Memory kept = place_one(allocator, 100);
  std::memset(kept.get(), 7, 100);
  const Memory copy(kept, kept.get() + 50);
  EXPECT_NE(place_one(allocator, kHugePage).get(), kept.get());
  EXPECT_EQ(copy.get()[49], std::byte{7});
}

TEST(HugePageAllocator, PutsSmallRequestsOnOnePage) {
  HugePageAllocator allocator;
  std::vector<Memory> memories;
  for (int i = 0; i < 100; ++i) memories.push_back(place_one(allocator, 1000));
  EXPECT_EQ(allocator.reserved_bytes(), kHugePage);
  for (std::size_t i = 1; i < memories.size(); ++i) EXPECT_EQ(memories[i].get() - memories[i - 1].get(), 1024);
}

TEST(HugePageAllocator, ReusesMemoryOfSameRequests) {
  for (const std::vector<std::uint64_t>& sizes : {std::vector<std::uint64_t>{64 << 10, 3 << 20},
                                                  {3 << 20, 64 << 10},
                                                  {100},
                                                  {kHugePage},
                                                  {1 << 20, 1 << 19, 7 << 20}}) {
    HugePageAllocator allocator;
    std::vector<std::byte*> begins;
    for (const Memory& memory : place(allocator, sizes)) begins.push_back(memory.get());
    const std::uint64_t reserved = allocator.reserved_bytes();
    for (int again = 0; again < 5; ++again) {
      const std::vector<Memory> memories = place(allocator, sizes);
      EXPECT_EQ(allocator.reserved_bytes(), reserved) << sizes[0] << " " << again;
      std::vector<std::byte*> now;
      for (const Memory& memory : memories) now.push_back(memory.get());
      EXPECT_TRUE(sizes.size() == 1 || now == begins) << sizes[0] << " " << again;
    }
  }
}

TEST(HugePageAllocator, ReusesPagesAroundSurvivors) {
  HugePageAllocator allocator;
  const std::vector<std::uint64_t> sizes(20, std::uint64_t{1} << 20);
  std::vector<Memory> survivors;
  for (std::size_t load = 0; load < 10; ++load) {
    std::vector<Memory> memories = place(allocator, sizes);
    survivors.push_back(memories[load + 5]);
  }
  EXPECT_LE(allocator.live_bytes(), 10 * kHugePage);
  // A load, the survivors' pages, and what does not fit between them.
  EXPECT_LE(allocator.reserved_bytes(), 20 * (std::uint64_t{1} << 20) + 11 * kHugePage);
}

TEST(HugePageAllocator, PlacesAllIfFirstFitsNowhere) {
  HugePageAllocator allocator;
  std::vector<Memory> memories = place(allocator, std::vector<std::uint64_t>(8, kHugePage));
  for (std::size_t i = 0; i < 8; i += 2) memories[i].reset();
  const std::vector<Memory> more = place(allocator, {2 * kHugePage, kHugePage, kHugePage});
  EXPECT_EQ(allocator.reserved_bytes(), 8 * kHugePage);  // the free pages went
  EXPECT_EQ(more[1].get() - more[0].get(), static_cast<std::ptrdiff_t>(2 * kHugePage));
  EXPECT_EQ(more[2].get() - more[1].get(), static_cast<std::ptrdiff_t>(kHugePage));
  for (const Memory& memory : more)
    for (const Memory& old : memories) EXPECT_NE(memory.get(), old.get());
}

TEST(HugePageAllocator, ReservesOnlyLargestRequest) {
  HugePageAllocator allocator;
  for (std::uint64_t size = kHugePage; size <= 40 * kHugePage; size += kHugePage) {
    std::memset(place_one(allocator, size).get(), 1, kHugePage);
    EXPECT_EQ(allocator.reserved_bytes(), size);
  }
  EXPECT_EQ(allocator.live_bytes(), 0U);
}

TEST(HugePageAllocator, GivesUpPagesNextToSurvivor) {
  HugePageAllocator allocator;
  std::vector<Memory> survivors;
  for (std::size_t pages = 2; pages < 12; ++pages) {
    std::vector<Memory> memories = place(allocator, {pages * kHugePage, 1000});
    std::memset(memories[1].get(), static_cast<int>(pages), 1000);
    survivors.push_back(std::move(memories[1]));
    EXPECT_LE(allocator.reserved_bytes(), (pages + survivors.size()) * kHugePage) << pages;
  }
  for (std::size_t i = 0; i < survivors.size(); ++i) EXPECT_EQ(survivors[i].get()[999], static_cast<std::byte>(i + 2));
}

TEST(HugePageAllocator, GivesUpNoMoreThanItAdds) {
  HugePageAllocator allocator;
  Memory small = place_one(allocator, 3 * kHugePage);
  Memory wall = place_one(allocator, kHugePage);
  Memory other = place_one(allocator, 3 * kHugePage);
  const std::uint64_t before = allocator.reserved_bytes();
  small.reset();
  other.reset();
  const Memory more = place_one(allocator, 4 * kHugePage);
  EXPECT_EQ(allocator.reserved_bytes(), before);
  const Memory kept = place_one(allocator, 2 * kHugePage);
  EXPECT_EQ(allocator.reserved_bytes(), before);
}

TEST(HugePageAllocator, ReservesAtMostLivePeak) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    HugePageAllocator allocator;
    std::vector<std::pair<Memory, std::uint64_t>> memories;
    std::uint64_t most = 0;
    for (int round = 0; round < 200; ++round) {
      std::vector<std::uint64_t> sizes(1 + random() % 4);
      for (std::uint64_t& size : sizes) size = random() % 3 == 0 ? random() % (9 * kHugePage) : random() % 100'000;
      std::vector<Memory> placed = place(allocator, sizes);
      most = std::max(most, allocator.live_bytes());
      ASSERT_LE(allocator.reserved_bytes(), most) << seed << " " << round;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] == 0) continue;
        placed[i].get()[0] = placed[i].get()[sizes[i] - 1] = static_cast<std::byte>(sizes[i]);
        memories.emplace_back(std::move(placed[i]), sizes[i]);
      }
      while (memories.size() > random() % 12) {
        std::swap(memories[random() % memories.size()], memories.back());
        const auto& [memory, size] = memories.back();
        ASSERT_TRUE(memory.get()[0] == static_cast<std::byte>(size) && memory.get()[size - 1] == memory.get()[0]);
        memories.pop_back();
      }
      if (round % 50 == 49) (void)allocator.trim();
    }
    memories.clear();
    EXPECT_EQ(allocator.live_bytes(), 0U);
  }
}

TEST(HugePageAllocator, KeepsPagesIfRequestFails) {
  HugePageAllocator allocator;
  std::byte* const begin = place(allocator, {3 * kHugePage}).front().get();
  std::vector<Request> requests = requests_of({std::uint64_t{1} << 62});
  EXPECT_EQ(test::error_of(allocator.place(requests)).code, Errc::out_of_memory);
  EXPECT_EQ(allocator.reserved_bytes(), 3 * kHugePage);
  EXPECT_EQ(place_one(allocator, 3 * kHugePage).get(), begin);
}

TEST(HugePageAllocator, KeepsPagesOfSurvivorsOnly) {
  for (const bool once : {true, false}) {
    std::vector<Request> requests = requests_of(std::vector<std::uint64_t>(32, std::uint64_t{1} << 20));
    auto allocator = std::make_unique<HugePageAllocator>();
    bool huge = false;
    ASSERT_TRUE(succeeds(once ? HugePageAllocator::place_once(requests, huge) : allocator->place(requests)));
    std::byte* const begin = requests[0].memory.get();
    for (const Request& request : requests) std::memset(request.memory.get(), 1, request.size);
    EXPECT_EQ(resident(begin, 32 << 20), 32U << 20);
    const Memory survivor = requests[17].memory;
    const Memory other = requests[3].memory;
    requests.clear();
    if (!once) {
      EXPECT_EQ(resident(begin, 32 << 20), 32U << 20);  // kept for the next load
      EXPECT_EQ(allocator->trim(), (32U << 20) - 2 * kHugePage);
      EXPECT_EQ(allocator->reserved_bytes(), 32U << 20);
    }
    EXPECT_EQ(resident(begin, 32 << 20), 2 * kHugePage);
    for (std::size_t i = 0; i < (1 << 20); i += 4096) ASSERT_EQ(survivor.get()[i], std::byte{1});
  }
}

TEST(HugePageAllocator, KeepsMemoryAfterDestruction) {
  auto allocator = std::make_unique<HugePageAllocator>();
  std::vector<Memory> memories = place(*allocator, {4 * kHugePage, 4 * kHugePage});
  for (const Memory& memory : memories) std::memset(memory.get(), 9, 4 * kHugePage);
  std::byte* const begin = memories[0].get();
  memories[0].reset();
  EXPECT_EQ(resident(begin, 8 * kHugePage), 8 * kHugePage);
  allocator.reset();
  EXPECT_EQ(resident(begin, 8 * kHugePage), 4 * kHugePage);
  EXPECT_EQ(memories[1].get()[4 * kHugePage - 1], std::byte{9});
}

TEST(HugePageAllocator, RefusesImpossibleSizes) {
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
    for (const bool once : {true, false}) {
      HugePageAllocator allocator;
      const Memory before = place_one(allocator, 100);
      std::vector<Request> requests = requests_of(want.sizes);
      bool huge = false;
      const Status status = once ? HugePageAllocator::place_once(requests, huge) : allocator.place(requests);
      const Error error = test::error_of(status);
      EXPECT_EQ(error.code, Errc::out_of_memory);
      EXPECT_EQ(error.message, want.message);
      for (const Request& request : requests) EXPECT_EQ(request.memory, nullptr);
      EXPECT_EQ(allocator.live_bytes(), kHugePage);
      EXPECT_NE(place_one(allocator, 100).get(), before.get());
      EXPECT_EQ(allocator.reserved_bytes(), kHugePage);
    }
  }
}

}  // namespace
}  // namespace safetensors::os
