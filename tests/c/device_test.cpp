// Plans of the C interface whose results go to a device, through the fake driver.
#include <safetensors/c.h>

#include "support/fake_driver.h"
#include "support/file_support.h"
#include "support/plan_tuning.h"

namespace safetensors::test {
namespace {

constexpr std::size_t kSize = 300'000;

class CDevice : public DeviceTest {
 protected:
  CDevice() : bytes(noise(kSize)) {
    const uint64_t shape[] = {kSize};
    const safetensors_tensor_data data = {"t", 1, SAFETENSORS_DTYPE_U8, 0, shape, 1, bytes.data(), kSize};
    EXPECT_EQ(safetensors_save(path.c_str(), &data, 1, nullptr, nullptr), SAFETENSORS_OK);
    EXPECT_EQ(safetensors_model_open(path.c_str(), nullptr, &model, nullptr), SAFETENSORS_OK);
    EXPECT_EQ(safetensors_plan_create(&plan, nullptr), SAFETENSORS_OK);
  }
  ~CDevice() override {
    safetensors_plan_free(plan);
    safetensors_model_free(model);
  }
  [[nodiscard]] safetensors_status add(const TestDeviceMemory& memory, int32_t device, uint64_t size) {
    safetensors_request request = SAFETENSORS_REQUEST_INIT;
    request.on_device = 1;
    request.device = device;
    request.destination = reinterpret_cast<void*>(static_cast<std::uintptr_t>(memory.address()));  // NOLINT
    request.destination_size = static_cast<std::size_t>(size);
    return safetensors_plan_add(plan, model, "t", 1, &request, &error);
  }

  TemporaryDirectory directory;
  const std::string path = directory.path() + "/model.safetensors";
  const std::string bytes;
  safetensors_model* model = nullptr;
  safetensors_plan* plan = nullptr;
  safetensors_error error;
  const CudaDriver used{SAFETENSORS_FAKE_CUDA};
};

TEST_F(CDevice, CopiesResults) {
  const TestDeviceMemory memory(*cuda, kSize);
  ASSERT_EQ(add(memory, 0, kSize), SAFETENSORS_OK);
  safetensors_read_options with = SAFETENSORS_READ_OPTIONS_INIT;
  with.memory_limit = std::uint64_t{3} << 20;
  constexpr std::uint64_t kChunk = std::uint64_t{1} << 16;
  const ChunkBytes chunks(kChunk);
  with.threads = 1;
  ASSERT_EQ(safetensors_plan_execute(plan, &with, nullptr, 0, &error), SAFETENSORS_OK) << error.message;
  EXPECT_TRUE(memory.bytes() == bytes);
}

TEST_F(CDevice, StreamsArrayWithoutBytes) {
  const TestDeviceMemory memory(*cuda, kSize);
  ASSERT_EQ(add(memory, 0, kSize), SAFETENSORS_OK);
  const safetensors_read_options with = SAFETENSORS_READ_OPTIONS_INIT;
  safetensors_stream* stream = nullptr;
  ASSERT_EQ(safetensors_plan_stream(plan, &with, &stream, &error), SAFETENSORS_OK) << error.message;
  safetensors_array* array = nullptr;
  uint64_t item = 1;
  ASSERT_EQ(safetensors_stream_next(stream, &item, &array, &error), SAFETENSORS_OK) << error.message;
  EXPECT_TRUE(memory.bytes() == bytes);
  safetensors_array_info info = SAFETENSORS_ARRAY_INFO_INIT;
  ASSERT_EQ(safetensors_array_get_info(array, &info, nullptr), SAFETENSORS_OK);
  EXPECT_EQ(item, 0U);
  EXPECT_EQ(info.nbytes, 0U);
  safetensors_array_free(array);
  safetensors_stream_free(stream);
}

TEST_F(CDevice, CopiesAfterWorkOnCallerStream) {
  const TestDeviceMemory memory(*cuda, kSize);
  const std::string before(kSize, 'x');
  ASSERT_EQ(add(memory, 0, kSize), SAFETENSORS_OK);
  device::Stream earlier = nullptr;
  void* locked = nullptr;
  {
    const device::Current current(cuda->calls(), memory.context());
    ASSERT_EQ(cuda->calls().stream_create(&earlier, 0), device::CudaResult::success);
    ASSERT_EQ(cuda->calls().host_allocate(&locked, kSize, 0), device::CudaResult::success);
    std::memcpy(locked, before.data(), kSize);
  }
  driver.delay(100, 1);
  for (int i = 0; i < 10; ++i) {
    const device::Current current(cuda->calls(), memory.context());
    ASSERT_EQ(cuda->calls().copy_to_device_async(memory.address(), locked, kSize, earlier),
              device::CudaResult::success);
  }
  const unsigned waits = driver.calls("cuStreamWaitEvent");
  safetensors_read_options with = SAFETENSORS_READ_OPTIONS_INIT;
  with.device_stream = earlier;
  EXPECT_EQ(safetensors_plan_execute(plan, &with, nullptr, 0, &error), SAFETENSORS_OK) << error.message;
  EXPECT_TRUE(memory.bytes() == bytes);
  EXPECT_GT(driver.calls("cuStreamWaitEvent"), waits);
  const device::Current current(cuda->calls(), memory.context());
  EXPECT_EQ(cuda->calls().stream_synchronize(earlier), device::CudaResult::success);
  EXPECT_EQ(cuda->calls().stream_destroy(earlier), device::CudaResult::success);
  EXPECT_EQ(cuda->calls().host_free(locked), device::CudaResult::success);
}

TEST_F(CDevice, RefusesMissingDevice) {
  const TestDeviceMemory memory(*cuda, kSize);
  ASSERT_EQ(add(memory, 100, kSize), SAFETENSORS_OK);
  EXPECT_EQ(safetensors_plan_execute(plan, nullptr, nullptr, 0, &error), SAFETENSORS_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "there is no CUDA device 100, the number of devices is 1");
}

}  // namespace
}  // namespace safetensors::test
