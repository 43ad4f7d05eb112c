#include <safetensors/error.h>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/fake_driver.h"

namespace safetensors::test {
namespace {

using device::CopyRing;
using device::Cuda;
using device::CudaResult;
using device::Current;
using device::RingOptions;

constexpr std::size_t kMiB = std::size_t{1} << 20;

class CudaErrors : public DeviceTest {};
class CopyRingTest : public DeviceTest {};

TEST(Cuda, ReportsReasonOfMissingDriver) {
  const Error error = error_of(Cuda::load("libno_such_driver.so.1"));
  EXPECT_EQ(error.code, Errc::unsupported);
  EXPECT_EQ(error.message,
            "the CUDA driver cannot be loaded: libno_such_driver.so.1: cannot open shared object file: "
            "No such file or directory");
}

TEST(Cuda, RefusesIncompleteDriver) {
  const Error error = error_of(Cuda::load(SAFETENSORS_INCOMPLETE_CUDA));
  EXPECT_EQ(error.code, Errc::unsupported);
  EXPECT_EQ(error.message, "the CUDA driver " SAFETENSORS_INCOMPLETE_CUDA " has no cuGetErrorName");
}

TEST_F(CudaErrors, ReportsMissingDeviceAsUnsupported) {
  driver.reset();
  driver.fail("cuInit", 1, 100, 0);
  const Error error = error_of(Cuda::load(SAFETENSORS_FAKE_CUDA));
  EXPECT_EQ(error.code, Errc::unsupported);
  EXPECT_EQ(error.message,
            "the CUDA driver cannot be initialized: CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)");
}

TEST_F(CudaErrors, NamesDriverThatCannotBeInitialized) {
  driver.reset();
  driver.fail("cuInit", 1, 719, 0);
  const Error error = error_of(Cuda::load(SAFETENSORS_FAKE_CUDA));
  EXPECT_EQ(error.code, Errc::device_failed);
  EXPECT_EQ(error.message,
            "the CUDA driver cannot be initialized: CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure)");
}

TEST_F(CudaErrors, ShowsNumberOfUnnamedError) {
  const Error error = cuda->error(CudaResult{12345}, "it broke");
  EXPECT_EQ(error.code, Errc::device_failed);
  EXPECT_EQ(error.os_error, 0);
  EXPECT_EQ(error.message, "it broke: CUDA error 12345");
}

TEST_F(CopyRingTest, RefusesMissingDevice) {
  const Error error = error_of(CopyRing::create(cuda, 1));
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_EQ(error.message, "there is no CUDA device 1, the number of devices is 1");
  EXPECT_EQ(error_of(CopyRing::create(cuda, -1)).message, "there is no CUDA device -1, the number of devices is 1");
  driver.devices(0);
  const Error none = error_of(CopyRing::create(cuda, 0));
  EXPECT_EQ(none.code, Errc::unsupported);
  EXPECT_EQ(none.message, "there is no CUDA device");
}

TEST_F(CopyRingTest, CopiesBytesDespiteDelays) {
  const std::string text = noise(20000);
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    driver.delay(seed % 4 * 50, seed);
    const TestDeviceMemory memory(*cuda, text.size());
    const auto ring = make_ring({.slots = 1 + seed % 5, .slot_bytes = 512, .streams = 1 + seed % 3});
    ASSERT_TRUE(succeeds(send_all(*ring, text, memory.address(), 1 + seed * 12, 1)));
    ASSERT_TRUE(succeeds(ring->finish()));
    ASSERT_EQ(memory.bytes(), text);
    ASSERT_STREQ(driver.violation(), "");
  }
}

TEST_F(CopyRingTest, CopiesBytesFromManyThreads) {
  const std::string text = noise(200000);
  for (unsigned seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    driver.delay(seed % 3 * 30, seed);
    const TestDeviceMemory memory(*cuda, text.size());
    // Fewer slots than threads, and more.
    const auto ring = make_ring({.slots = 2 + seed, .slot_bytes = 1024, .streams = 2 + seed % 2});
    ASSERT_TRUE(succeeds(send_all(*ring, text, memory.address(), 1000, 6)));
    ASSERT_TRUE(succeeds(ring->finish()));
    ASSERT_EQ(memory.bytes(), text);
    EXPECT_EQ(ring->stats().bytes, 200000u);
  }
}

TEST_F(CopyRingTest, CopiesPartsToDifferentAddresses) {
  const TestDeviceMemory first(*cuda, 3);
  const TestDeviceMemory second(*cuda, 2);
  const auto ring = make_ring({.slots = 2, .slot_bytes = 16});
  auto slot = ring->acquire();
  ASSERT_TRUE(succeeds(slot));
  put_into(*slot, "abcdefgh");
  const std::array parts = {CopyRing::Part{1, 3, first.address()}, CopyRing::Part{16, 0, 0},
                            CopyRing::Part{6, 1, second.address() + 1}, CopyRing::Part{0, 1, second.address()}};
  ASSERT_TRUE(succeeds(ring->copy_parts(std::move(*slot), parts)));
  ASSERT_TRUE(succeeds(ring->finish()));
  EXPECT_EQ(first.bytes(), "bcd");
  EXPECT_EQ(second.bytes(), "ag");
  EXPECT_EQ(ring->stats().bytes, 5u);
}

TEST_F(CopyRingTest, WaitsForOldestCopy) {
  const TestDeviceMemory memory(*cuda, 3);
  const auto ring = make_ring({.slots = 2, .slot_bytes = 16, .streams = 1});
  driver.hold(1);
  ASSERT_TRUE(succeeds(send(*ring, "a", memory.address())));
  ASSERT_TRUE(succeeds(send(*ring, "b", memory.address() + 1)));
  std::atomic<bool> sent{false};
  std::thread third([&] {
    EXPECT_TRUE(succeeds(send(*ring, "c", memory.address() + 2)));
    sent = true;
  });
  driver.wait_for_waiting(1);
  EXPECT_FALSE(sent);
  EXPECT_EQ(driver.state().copies, 0);
  driver.hold(0);
  third.join();
  ASSERT_TRUE(succeeds(ring->finish()));
  EXPECT_EQ(memory.bytes(), "abc");
  EXPECT_EQ(driver.calls("cuEventSynchronize"), 1u);
}

TEST_F(CopyRingTest, WaitsForCopiesInSeveralThreads) {
  const std::string text = noise(8);
  const TestDeviceMemory memory(*cuda, 8);
  const auto ring = make_ring({.slots = 4, .slot_bytes = 1, .streams = 2});
  driver.hold(1);
  ASSERT_TRUE(succeeds(send_all(*ring, text.substr(0, 4), memory.address(), 1, 1)));
  std::thread others(
      [&] { EXPECT_TRUE(succeeds(send_all(*ring, std::string_view(text).substr(4), memory.address() + 4, 1, 4))); });
  driver.wait_for_waiting(4);
  driver.hold(0);
  others.join();
  ASSERT_TRUE(succeeds(ring->finish()));
  EXPECT_EQ(memory.bytes(), text);
}

TEST_F(CopyRingTest, WaitsForSlotOfOtherThread) {
  const auto ring = make_ring({.slots = 1, .slot_bytes = 16});
  auto held = ring->acquire();
  ASSERT_TRUE(succeeds(held));
  std::byte* const memory = (*held)->bytes.data();
  std::atomic<bool> asks{false};
  std::thread other([&] {
    asks = true;
    const auto slot = ring->acquire();
    EXPECT_TRUE(succeeds(slot));
    EXPECT_EQ((*slot)->bytes.data(), memory);
  });
  while (!asks) std::this_thread::yield();
  { const CopyRing::Slot dropped = std::move(*held); }
  other.join();
}

TEST_F(CopyRingTest, TakesBackDroppedSlots) {
  const TestDeviceMemory memory(*cuda, 1);
  const auto ring = make_ring({.slots = 2, .slot_bytes = 16});
  const std::byte* const first = ring->acquire().value()->bytes.data();
  for (int i = 0; i < 10; ++i) {
    auto slot = ring->acquire();
    ASSERT_TRUE(succeeds(slot));
    EXPECT_EQ((*slot)->bytes.size(), 16u);
    EXPECT_EQ((*slot)->bytes.data(), first);
    if (i % 2 != 0) continue;
    ASSERT_TRUE(succeeds(copy(*ring, std::move(*slot), 0, memory.address())));
  }
  EXPECT_EQ(ring->stats().bytes, 0u);
}

TEST_F(CopyRingTest, PinsNoMoreThanRequested) {
  const auto ring = make_ring({.slots = 3, .slot_bytes = 5 * kMiB});
  EXPECT_EQ(driver.state().most_pinned_bytes, static_cast<std::int64_t>(15 * kMiB));
  EXPECT_EQ(driver.state().streams, 2);
  EXPECT_EQ(driver.state().events, 3);
  EXPECT_EQ(ring->stats().pinned_bytes, 15 * kMiB);
  EXPECT_EQ(ring->stats().slots, 3u);
  EXPECT_EQ(ring->stats().slot_bytes, 5 * kMiB);
}

TEST(RingWithin, GivesLargestRingThatFitsBudget) {
  const auto shape = [](std::size_t budget) {
    const RingOptions options = device::ring_within(budget);
    return std::pair(options.slots, options.slot_bytes);
  };
  EXPECT_EQ(shape(std::size_t{1} << 30), std::pair(8U, 16 * kMiB));
  EXPECT_EQ(shape(64 * kMiB), std::pair(8U, 8 * kMiB));
  EXPECT_EQ(shape(8 * kMiB + 8 * 4096 + 7), std::pair(8U, kMiB + 4096));
  EXPECT_EQ(shape(8 * kMiB - 1), std::pair(7U, kMiB));
  EXPECT_EQ(shape(3 * kMiB), std::pair(3U, kMiB));
  EXPECT_EQ(shape(0), std::pair(2U, kMiB));
}

TEST_F(CopyRingTest, ShrinksIfMemoryCannotBePinned) {
  const auto shape = [&](std::size_t limit) {
    driver.host_limit(limit);
    const auto ring = make_ring({.slots = 8, .slot_bytes = 4 * kMiB});
    EXPECT_EQ(driver.state().pinned_bytes, static_cast<std::int64_t>(ring->stats().pinned_bytes));
    return std::pair(ring->stats().slots, ring->stats().slot_bytes);
  };
  EXPECT_EQ(shape(31 * kMiB), std::pair(7U, 4 * kMiB));
  EXPECT_EQ(shape(8 * kMiB), std::pair(2U, 4 * kMiB));
  EXPECT_EQ(shape(7 * kMiB), std::pair(3U, 2 * kMiB));
  EXPECT_EQ(shape(2 * kMiB), std::pair(2U, kMiB));
  driver.host_limit(2 * kMiB - 1);
  const Error error = error_of(CopyRing::create(cuda, 0, {.slots = 8, .slot_bytes = 4 * kMiB}));
  EXPECT_EQ(error.code, Errc::device_failed);
  EXPECT_EQ(error.message,
            "cannot lock 1048576 bytes of memory for the device: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
}

TEST_F(CopyRingTest, WaitsForCopiesInDestructor) {
  const TestDeviceMemory memory(*cuda, 2);
  auto ring = make_ring({.slots = 4, .slot_bytes = 16});
  driver.hold(1);
  ASSERT_TRUE(succeeds(send(*ring, "a", memory.address())));
  ASSERT_TRUE(succeeds(send(*ring, "b", memory.address() + 1)));
  std::thread death([&] { ring.reset(); });
  driver.wait_for_waiting(1);
  EXPECT_EQ(driver.state().pinned_bytes, 4 * 16);
  driver.hold(0);
  death.join();
  EXPECT_EQ(memory.bytes(), "ab");
}

TEST_F(CopyRingTest, CopiesAfterWorkOnCallerStream) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    driver.delay(0, seed);
    const TestDeviceMemory memory(*cuda, 1);
    device::Stream earlier = nullptr;
    void* locked = nullptr;
    driver.hold(1);
    {
      const Current current(cuda->calls(), memory.context());
      ASSERT_EQ(cuda->calls().stream_create(&earlier, 0), CudaResult::success);
      ASSERT_EQ(cuda->calls().host_allocate(&locked, 1, 0), CudaResult::success);
      std::memset(locked, 'x', 1);
      ASSERT_EQ(cuda->calls().copy_to_device_async(memory.address(), locked, 1, earlier), CudaResult::success);
    }
    auto ring = make_ring({.slots = 2, .slot_bytes = 16, .streams = 1 + seed % 2, .after = earlier});
    ASSERT_TRUE(succeeds(send(*ring, "a", memory.address())));
    driver.hold(0);
    ASSERT_TRUE(succeeds(ring->finish()));
    EXPECT_EQ(memory.bytes(), "a");
    const Current current(cuda->calls(), memory.context());
    ASSERT_EQ(cuda->calls().stream_synchronize(earlier), CudaResult::success);
    ASSERT_EQ(cuda->calls().stream_destroy(earlier), CudaResult::success);
    ASSERT_EQ(cuda->calls().host_free(locked), CudaResult::success);
  }
}

TEST_F(CopyRingTest, WaitsOncePerStreamAndBatch) {
  driver.delay(100, 7);
  const std::string text = noise(64);
  const auto ring = make_ring({.slots = 8, .slot_bytes = 16, .streams = 2});
  for (int batch = 0; batch < 5; ++batch) {
    const TestDeviceMemory memory(*cuda, text.size());
    ASSERT_TRUE(succeeds(send_all(*ring, text, memory.address(), 16, 1)));
    ASSERT_TRUE(succeeds(ring->finish()));
    ASSERT_EQ(memory.bytes(), text);
  }
  EXPECT_EQ(driver.calls("cuStreamSynchronize"), 10u);
  EXPECT_EQ(driver.calls("cuEventSynchronize"), 0u);
  EXPECT_EQ(driver.calls("cuMemHostAlloc"), 8u);
}

TEST_F(CopyRingTest, ReusesSlotsOfFinishedCopies) {
  const TestDeviceMemory memory(*cuda, 3);
  driver.hold(1);
  const auto ring = make_ring({.slots = 2, .slot_bytes = 16, .streams = 1});
  ASSERT_TRUE(succeeds(send(*ring, "a", memory.address())));
  std::thread finishing([&] { EXPECT_TRUE(succeeds(ring->finish())); });
  driver.wait_for_waiting(1);
  ASSERT_TRUE(succeeds(send(*ring, "b", memory.address() + 1)));
  driver.step(4);  // the caller's event, the wait for it, the copy of a, its event
  finishing.join();
  EXPECT_EQ(driver.state().copies, 1);
  ASSERT_TRUE(succeeds(send(*ring, "c", memory.address() + 2)));
  EXPECT_EQ(driver.calls("cuEventSynchronize"), 0u);
  driver.hold(0);
  ASSERT_TRUE(succeeds(ring->finish()));
  EXPECT_EQ(memory.bytes(), "abc");
}

TEST_F(CopyRingTest, LeavesNoContextOnThread) {
  const TestDeviceMemory memory(*cuda, 4);
  const auto ring = make_ring({.slots = 1, .slot_bytes = 16});
  EXPECT_EQ(driver.depth(), 0);
  ASSERT_TRUE(succeeds(send(*ring, "a", memory.address())));
  EXPECT_EQ(driver.depth(), 0);
  ASSERT_TRUE(succeeds(send(*ring, "b", memory.address())));
  EXPECT_EQ(driver.depth(), 0);
  ASSERT_TRUE(succeeds(ring->finish()));
  EXPECT_EQ(driver.depth(), 0);
  EXPECT_EQ(driver.state().pushed, 0);
}

// The same with a real driver, if this machine has one.
TEST(RealCuda, CopiesBytesFromManyThreads) {
  const auto cuda = Cuda::load();
  if (!cuda) GTEST_SKIP() << cuda.error().message;
  const std::string text = noise(100 * kMiB + 4321);
  const TestDeviceMemory memory(**cuda, text.size());
  const auto ring = CopyRing::create(*cuda, 0, {.slots = 4, .slot_bytes = kMiB});
  ASSERT_TRUE(succeeds(ring));
  for (int batch = 0; batch < 2; ++batch) {
    ASSERT_TRUE(succeeds(send_all(**ring, text, memory.address(), kMiB - 4099, 6)));
    ASSERT_TRUE(succeeds((*ring)->finish()));
  }
  ASSERT_TRUE(memory.bytes() == text);
  EXPECT_EQ((*ring)->stats().bytes, 2 * text.size());
}

}  // namespace
}  // namespace safetensors::test
