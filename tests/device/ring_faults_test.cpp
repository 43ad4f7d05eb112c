// Fails every call of the driver in turn. Each time, the error is right, nothing is left, and no memory is used too
// early.
#include <safetensors/error.h>

#include <gtest/gtest.h>

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

constexpr int kLaunchFailed = 719;
constexpr const char* kReason = ": CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure)";

class CopyRingFaults : public DeviceTest {};

// The message of each function's first failure; empty: no message.
struct Fault {
  const char* function;
  const char* message;
};
constexpr Fault kFaults[] = {
    {"cuDeviceGetCount", "cannot count the CUDA devices"},
    {"cuDeviceGet", "cannot use CUDA device 0"},
    {"cuDevicePrimaryCtxRetain", "cannot use CUDA device 0"},
    {"cuDevicePrimaryCtxRelease_v2", ""},
    {"cuCtxPushCurrent_v2", "cannot use CUDA device 0"},
    {"cuCtxPopCurrent_v2", ""},
    {"cuMemHostAlloc", "cannot lock 64 bytes of memory for the device"},
    {"cuMemFreeHost", ""},
    {"cuMemcpyHtoDAsync_v2", "cannot copy to the device"},
    {"cuStreamCreate", "cannot create a stream of the device"},
    {"cuStreamDestroy_v2", ""},
    {"cuStreamSynchronize", "cannot copy to the device"},
    {"cuStreamWaitEvent", "cannot wait for the stream of the caller"},
    {"cuEventCreate", "cannot create an event of the device"},
    {"cuEventRecord", "cannot wait for the stream of the caller"},
    {"cuEventQuery", "cannot copy to the device"},
    {"cuEventSynchronize", "cannot copy to the device"},
    {"cuEventDestroy_v2", ""},
};

void PrintTo(const Fault& fault, std::ostream* stream) {
  *stream << fault.function;
}

class CudaFaults : public DeviceTest, public testing::WithParamInterface<Fault> {
 protected:
  // A whole life of a ring; the memory must be the caller's, so that no call but the ring's is counted.
  Status live(unsigned threads, device::Address address) {
    auto ring = CopyRing::create(cuda, 0, {.slots = 2, .slot_bytes = 64, .streams = 2});
    if (!ring) return ring.error();
    if (Status status = send_all(**ring, text, address, 64, threads); !status) {
      // From now on the same, and at once.
      EXPECT_EQ(error_of((*ring)->acquire()).message, status.error().message);
      EXPECT_EQ(error_of((*ring)->finish()).message, status.error().message);
      return status;
    }
    return (*ring)->finish();
  }

  // Calls of the function in a run without a failure; then each of them fails in a run of its own.
  void sweep(unsigned threads, bool sticky) {
    const Fault fault = GetParam();
    for (unsigned call = 1; call < 1000; ++call) {
      SCOPED_TRACE(std::string(fault.function) + ", call " + std::to_string(call));
      begin();
      {
        const Memory memory(*this);
        const unsigned before = driver.calls(fault.function);
        driver.fail(fault.function, before + call, kLaunchFailed, sticky ? 1 : 0);
        const Status status = live(threads, memory.address());
        const bool reached = driver.calls(fault.function) >= before + call;
        EXPECT_TRUE(reached || status.ok());
        driver.fail(fault.function, 0, 0, 0);
        if (call == 1) {
          ASSERT_TRUE(reached);
          if (threads == 1) expect_told(status, fault.message, sticky);
        }
        if (!status) {
          EXPECT_EQ(status.error().code, Errc::device_failed);
          EXPECT_NE(status.error().message.find(kReason), std::string::npos) << status.error().message;
        } else if (!sticky) {
          EXPECT_EQ(memory.bytes(), text);
        }
        if (!reached) break;
      }
      driver.expect_nothing_left();
      if (HasFailure()) return;
    }
  }

  static void expect_told(const Status& status, const std::string& message, bool sticky) {
    if (message.empty()) {
      // A dead context is met by the next call; in tear_down nobody is told.
      EXPECT_TRUE(status.ok() || sticky);
    } else {
      EXPECT_EQ(error_of(status).message, message + kReason);
    }
  }

  using Memory = struct SomeMemory : TestDeviceMemory {
    explicit SomeMemory(CudaFaults& test) : TestDeviceMemory(*test.cuda, test.text.size()) {}
  };

  void begin() {
    driver.reset();
    ASSERT_TRUE(succeeds(Cuda::load(SAFETENSORS_FAKE_CUDA)));
    // The first copy is always waited for.
    driver.fail("cuEventQuery", 1, 600, 0);
  }

  const std::string text = noise(64 * 6);
};

TEST_P(CudaFaults, SurvivesOneFailedCall) {
  sweep(1, false);
}
TEST_P(CudaFaults, SurvivesOneFailedCallAmongThreads) {
  sweep(4, false);
}
TEST_P(CudaFaults, SurvivesStickyFailure) {
  sweep(1, true);
}
TEST_P(CudaFaults, SurvivesStickyFailureAmongThreads) {
  sweep(4, true);
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaFaults, testing::ValuesIn(kFaults),
                         [](const auto& parameter) { return std::string(parameter.param.function); });

TEST_F(CopyRingFaults, KeepsErrorOfCopyOutsideMemory) {
  const TestDeviceMemory memory(*cuda, 4096);
  const auto ring = make_ring({.slots = 2, .slot_bytes = 4096});
  auto held = ring->acquire();
  ASSERT_TRUE(succeeds(held));
  driver.hold(1);
  ASSERT_TRUE(succeeds(send(*ring, noise(4096), memory.address() + 1)));
  driver.hold(0);
  const std::string message =
      "cannot copy to the device: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)";
  const Error error = error_of(ring->finish());
  EXPECT_EQ(error.code, Errc::device_failed);
  EXPECT_EQ(error.message, message);
  EXPECT_EQ(error_of(ring->acquire()).message, message);
  EXPECT_EQ(error_of(copy(*ring, std::move(*held), 1, memory.address())).message, message);
  EXPECT_EQ(error_of(ring->finish()).message, message);
}

TEST_F(CopyRingFaults, WakesThreadsThatWaitForSlots) {
  const TestDeviceMemory memory(*cuda, 1);
  const auto ring = make_ring({.slots = 2, .slot_bytes = 16});
  auto first = ring->acquire();
  auto second = ring->acquire();
  ASSERT_TRUE(succeeds(first));
  ASSERT_TRUE(succeeds(second));
  std::vector<std::thread> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.emplace_back(
        [&] { EXPECT_EQ(error_of(ring->acquire()).message, std::string("cannot copy to the device") + kReason); });
  }
  driver.fail("cuMemcpyHtoDAsync_v2", driver.calls("cuMemcpyHtoDAsync_v2") + 1, kLaunchFailed, 0);
  EXPECT_FALSE(copy(*ring, std::move(*first), 1, memory.address()).ok());
  for (std::thread& thread : waiting) thread.join();
}

TEST_F(CopyRingFaults, NeverReusesPartlyCopiedSlot) {
  const TestDeviceMemory memory(*cuda, 2);
  {
    const auto ring = make_ring({.slots = 1, .slot_bytes = 16});
    driver.hold(1);
    auto slot = ring->acquire();
    ASSERT_TRUE(succeeds(slot));
    put_into(*slot, "ab");
    const CopyRing::Part parts[] = {{0, 1, memory.address()}, {1, 1, memory.address() + 1}};
    driver.fail("cuMemcpyHtoDAsync_v2", driver.calls("cuMemcpyHtoDAsync_v2") + 2, kLaunchFailed, 0);
    EXPECT_EQ(error_of(ring->copy_parts(std::move(*slot), parts)).message,
              std::string("cannot copy to the device") + kReason);
    EXPECT_FALSE(ring->acquire().ok());
    driver.hold(0);
  }
  EXPECT_EQ(memory.bytes()[0], 'a');
}

TEST_F(CopyRingFaults, ReportsErrorWithoutDriverTexts) {
  driver.fail("cuGetErrorName", driver.calls("cuGetErrorName") + 1, kLaunchFailed, 0);
  EXPECT_EQ(cuda->error(device::CudaResult{700}, "it broke").message,
            "it broke: CUDA error 700 (an illegal memory access was encountered)");
  driver.fail("cuGetErrorString", driver.calls("cuGetErrorString") + 1, kLaunchFailed, 0);
  EXPECT_EQ(cuda->error(device::CudaResult{700}, "it broke").message, "it broke: CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_F(CopyRingFaults, RepeatsFailedWaitInDestructor) {
  const TestDeviceMemory memory(*cuda, 2);
  auto ring = make_ring({.slots = 2, .slot_bytes = 16, .streams = 1});
  driver.hold(1);
  ASSERT_TRUE(succeeds(send(*ring, "ab", memory.address())));
  driver.fail("cuStreamSynchronize", driver.calls("cuStreamSynchronize") + 1, kLaunchFailed, 0);
  std::thread death([&] { ring.reset(); });
  while (driver.calls("cuStreamSynchronize") < 2 && driver.state().pinned_bytes != 0) std::this_thread::yield();
  driver.hold(0);
  death.join();
  EXPECT_EQ(memory.bytes(), "ab");
}

TEST_F(CopyRingFaults, MayBeDestroyedDuringCopies) {
  driver.delay(200, 3);
  const std::string text = noise(4096);
  const TestDeviceMemory memory(*cuda, text.size());
  for (int i = 0; i < 10; ++i) {
    const auto ring = make_ring({.slots = 3, .slot_bytes = 64});
    ASSERT_TRUE(succeeds(send_all(*ring, std::string_view(text).substr(0, 640), memory.address(), 64, 4)));
    const auto unused = ring->acquire();
    ASSERT_TRUE(succeeds(unused));
  }
}

}  // namespace
}  // namespace safetensors::test
