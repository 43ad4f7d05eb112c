// HugePageAllocator: several threads place and release memory, and a forked child releases memory.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "os/huge_page_allocator.h"
#include "support/io_support.h"
#include "support/sanitizers.h"

namespace safetensors::os {
namespace {

using test::succeeds;
using Request = HugePageAllocator::Request;
using Memory = std::shared_ptr<std::byte>;

// Memory that is filled with the mark of its owner.
struct Marked {
  Memory memory;
  std::size_t size = 0;
  unsigned char mark = 0;

  void fill() const { std::memset(memory.get(), mark, size); }
  [[nodiscard]] bool intact() const {
    for (std::size_t i = 0; i < size; ++i)
      if (memory.get()[i] != std::byte{mark}) return false;
    return true;
  }
};

std::vector<Marked> place(HugePageAllocator& allocator, std::mt19937& random) {
  std::vector<Request> requests(1 + random() % 6);
  for (Request& request : requests) {
    request.size = random() % 4 == 0 ? random() % (3 * kHugePage) : random() % 20'000;
    if (random() % 4 == 0) request.phase = static_cast<std::uint32_t>(random() % 64 * 64);
  }
  EXPECT_TRUE(succeeds(allocator.place(requests)));
  std::vector<Marked> made;
  for (Request& request : requests)
    if (request.size != 0)
      made.push_back(
          {std::move(request.memory), static_cast<std::size_t>(request.size), static_cast<unsigned char>(random())});
  return made;
}

TEST(HugePageThreads, NeverShareLiveMemory) {
  auto allocator = std::make_unique<HugePageAllocator>();
  std::mutex mutex;
  std::vector<Marked> shared;  // released by other threads than the one that placed it
  std::atomic<int> broken{0};
  const int rounds = test::kSanitized ? 40 : 120;
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 6; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      std::vector<Marked> mine;
      for (int round = 0; round < rounds; ++round) {
        for (Marked& made : place(*allocator, random)) {
          made.fill();
          mine.push_back(std::move(made));
        }
        while (mine.size() > 8) {
          const std::size_t i = random() % mine.size();
          if (!mine[i].intact()) ++broken;
          std::swap(mine[i], mine.back());
          const std::lock_guard lock(mutex);
          if (random() % 2 == 0) shared.push_back(std::move(mine.back()));
          if (shared.size() > 10) shared.erase(shared.begin());
          mine.pop_back();
        }
        if (round % 16 == 0) (void)allocator->trim();
      }
      const std::lock_guard lock(mutex);
      for (Marked& left : mine) shared.push_back(std::move(left));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(broken, 0);
  allocator.reset();
  for (const Marked& left : shared) EXPECT_TRUE(left.intact());
}

// Only one byte per page is marked. So sizes can differ by much, and free runs of pages are often too short.
TEST(HugePageThreads, GiveUpPagesNextToDroppedOnes) {
  auto allocator = std::make_unique<HugePageAllocator>();
  std::mutex mutex;
  std::vector<Marked> shared;
  std::atomic<int> broken{0};
  const auto intact = [](const Marked& made) {
    for (std::size_t at = 0; at < made.size; at += kHugePage)
      if (made.memory.get()[at] != std::byte{made.mark}) return false;
    return true;
  };
  const int rounds = test::kSanitized ? 200 : 1000;
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      for (int round = 0; round < rounds; ++round) {
        std::vector<Request> request(1);
        request[0].size = (1 + random() % 4) * kHugePage;
        if (!allocator->place(request)) continue;
        Marked made{std::move(request[0].memory), static_cast<std::size_t>(request[0].size),
                    static_cast<unsigned char>(random())};
        for (std::size_t at = 0; at < made.size; at += kHugePage) made.memory.get()[at] = std::byte{made.mark};
        const std::lock_guard lock(mutex);
        if (!shared.empty()) std::swap(shared[random() % shared.size()], made);
        if (shared.size() < 8) shared.push_back(made);
        if (!intact(made)) ++broken;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(broken, 0);
  EXPECT_LE(allocator->reserved_bytes(), 12 * 4 * kHugePage);
  allocator.reset();
  for (const Marked& left : shared) EXPECT_TRUE(intact(left));
}

// One thread releases a large range and still counts its pages while another thread places the first of these pages
// again. Then the allocator is destroyed.
TEST(HugePageThreads, KeepMemoryPlacedDuringDrop) {
  // The range is never touched, so it costs no memory. Counting the pages of a large range takes longer.
  const auto machine = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * 4096;
  const std::uint64_t large_size = machine / 2 / kHugePage * kHugePage;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  int overlapped = 0;  // count of rounds in which both threads ran at once
  for (int round = 0; overlapped < 20 && std::chrono::steady_clock::now() < limit; ++round) {
    auto allocator = std::make_unique<HugePageAllocator>();
    std::vector<Request> large(1);
    large[0].size = large_size;
    if (!allocator->place(large)) GTEST_SKIP() << "half of the machine's memory cannot be reserved";
    std::byte* const begin = large[0].memory.get();
    std::atomic<bool> dropping{false}, dropped{false};
    std::thread dropper([&] {
      dropping = true;
      large[0].memory.reset();
      dropped = true;
    });
    while (!dropping.load()) std::this_thread::yield();
    Marked small{nullptr, 1000, 5};
    std::vector<Request> request(1);
    request[0].size = small.size;
    ASSERT_TRUE(succeeds(allocator->place(request)));
    small.memory = std::move(request[0].memory);
    small.fill();
    if (small.memory.get() == begin && !dropped.load()) ++overlapped;
    allocator.reset();
    dropper.join();
    ASSERT_TRUE(small.intact()) << "round " << round;
  }
  if (overlapped == 0) GTEST_SKIP() << "two threads never ran at once";
}

TEST(HugePageThreads, AllowDropInForkedChild) {
  if (test::kSanitized) GTEST_SKIP() << "at a fork, another thread may hold a lock of the sanitizer's allocator";
  HugePageAllocator allocator;
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    std::mt19937 random(1);
    while (!stop.load()) (void)place(allocator, random);
  });
  for (int round = 0; round < 30; ++round) {
    std::mt19937 random(static_cast<unsigned>(round));
    std::vector<Marked> mine = place(allocator, random);
    for (const Marked& made : mine) made.fill();
    const int result = test::in_child([&] {
      const bool intact = std::ranges::all_of(mine, [](const Marked& made) { return made.intact(); });
      for (Marked& made : mine) made.memory.reset();
      return intact;
    });
    EXPECT_EQ(result, 0);
    for (const Marked& made : mine) EXPECT_TRUE(made.intact());
  }
  stop = true;
  busy.join();
}

}  // namespace
}  // namespace safetensors::os
