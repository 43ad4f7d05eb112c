// Access to the fake CUDA driver for tests, and memory of a device.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/cuda.h"
#include "device/ring.h"
#include "fake_cuda/fake_cuda.h"
#include "support/io_support.h"

namespace safetensors::test {

// The controls of fake_cuda.h, found in the shared object.
class FakeDriver {
 public:
  FakeDriver() : handle_(::dlopen(SAFETENSORS_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL)) {
    if (!handle_) throw std::runtime_error(::dlerror());
    find(reset, "fake_cuda_reset");
    find(devices, "fake_cuda_devices");
    find(host_limit, "fake_cuda_host_limit");
    find(delay, "fake_cuda_delay");
    find(hold, "fake_cuda_hold");
    find(step, "fake_cuda_step");
    find(fail, "fake_cuda_fail");
    find(calls, "fake_cuda_calls");
    find(violation, "fake_cuda_violation");
    find(depth, "fake_cuda_depth");
    find(state_, "fake_cuda_state");
    reset();
  }

  decltype(&fake_cuda_reset) reset;
  decltype(&fake_cuda_devices) devices;
  decltype(&fake_cuda_host_limit) host_limit;
  decltype(&fake_cuda_delay) delay;
  decltype(&fake_cuda_hold) hold;
  decltype(&fake_cuda_step) step;
  decltype(&fake_cuda_fail) fail;
  decltype(&fake_cuda_calls) calls;
  decltype(&fake_cuda_violation) violation;
  decltype(&fake_cuda_depth) depth;

  [[nodiscard]] FakeCudaState state() const {
    FakeCudaState state;
    state_(&state);
    return state;
  }
  void wait_for_waiting(std::int64_t threads) const {
    while (state().waiting < threads) std::this_thread::yield();
  }
  void expect_nothing_left() const {
    const FakeCudaState now = state();
    EXPECT_STREQ(violation(), "");
    EXPECT_EQ(now.violations, 0);
    EXPECT_EQ(now.contexts, 0);
    EXPECT_EQ(now.pushed, 0);
    EXPECT_EQ(now.streams, 0);
    EXPECT_EQ(now.events, 0);
    EXPECT_EQ(now.pinned_bytes, 0);
    EXPECT_EQ(now.device_allocations, 0);
    EXPECT_EQ(now.waiting, 0);
    EXPECT_EQ(depth(), 0);
  }

 private:
  template <class Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(handle_, name));
    if (!function) throw std::runtime_error(name);
  }

  void* handle_;
  decltype(&fake_cuda_state) state_;
};

// Memory of device 0, of the fake driver or of a real one.
class TestDeviceMemory {
 public:
  TestDeviceMemory(const device::Cuda& cuda, std::size_t size) : calls_(cuda.calls()), size_(size) {
    EXPECT_EQ(calls_.device_get(&device_, 0), device::CudaResult::success);
    EXPECT_EQ(calls_.primary_context_retain(&context_, device_), device::CudaResult::success);
    const device::Current current(calls_, context_);
    EXPECT_EQ(calls_.memory_allocate(&address_, size), device::CudaResult::success);
  }
  TestDeviceMemory(const TestDeviceMemory&) = delete;
  TestDeviceMemory& operator=(const TestDeviceMemory&) = delete;
  ~TestDeviceMemory() {
    {
      const device::Current current(calls_, context_);
      (void)calls_.memory_free(address_);
    }
    (void)calls_.primary_context_release(device_);
  }

  [[nodiscard]] device::Address address() const { return address_; }
  [[nodiscard]] device::Context context() const { return context_; }
  [[nodiscard]] std::string bytes() const {
    std::string bytes(size_, '\0');
    const device::Current current(calls_, context_);
    EXPECT_EQ(calls_.copy_from_device(bytes.data(), address_, size_), device::CudaResult::success);
    return bytes;
  }

 private:
  const device::CudaCalls& calls_;
  std::size_t size_;
  device::Device device_ = 0;
  device::Context context_ = nullptr;
  device::Address address_ = 0;
};

inline void put_into(const device::CopyRing::Slot& slot, std::string_view text) {
  ASSERT_LE(text.size(), slot->bytes.size());
  std::memcpy(slot->bytes.data(), text.data(), text.size());
}

// Begins a copy of the first `size` bytes of a slot.
inline Status copy(device::CopyRing& ring, device::CopyRing::Slot slot, std::size_t size, device::Address address) {
  const device::CopyRing::Part part{.from = 0, .size = size, .device_address = address};
  return ring.copy_parts(std::move(slot), {&part, 1});
}

// Copies text to the device at address, through one slot, as a reader thread does.
inline Status send(device::CopyRing& ring, std::string_view text, device::Address address) {
  auto slot = ring.acquire();
  if (!slot) return slot.error();
  put_into(*slot, text);
  return copy(ring, std::move(*slot), text.size(), address);
}

// Copies text in chunks, with several threads. Returns the first failure. The caller must still call finish().
inline Status send_all(device::CopyRing& ring, std::string_view text, device::Address address, std::size_t chunk,
                       unsigned threads) {
  std::atomic<std::size_t> next{0};
  std::vector<Status> results(threads);
  const auto work = [&](Status& result) {
    for (;;) {
      const std::size_t begin = next.fetch_add(chunk);
      if (begin >= text.size() || !result.ok()) return;
      result = send(ring, text.substr(begin, chunk), address + begin);
    }
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(work, std::ref(results[i]));
  work(results[0]);
  for (std::thread& other : others) other.join();
  const auto failed = std::find_if(results.begin(), results.end(), [](const Status& s) { return !s.ok(); });
  return failed == results.end() ? Status() : *failed;
}

class DeviceTest : public testing::Test {
 protected:
  DeviceTest() {
    auto loaded = device::Cuda::load(SAFETENSORS_FAKE_CUDA);
    EXPECT_TRUE(succeeds(loaded));
    cuda = std::move(loaded).value();
  }
  void TearDown() override { driver.expect_nothing_left(); }

  std::unique_ptr<device::CopyRing> make_ring(const device::RingOptions& options) const {
    auto ring = device::CopyRing::create(cuda, 0, options);
    EXPECT_TRUE(succeeds(ring));
    return std::move(ring).value();
  }

  FakeDriver driver;
  std::shared_ptr<const device::Cuda> cuda;
};

}  // namespace safetensors::test
