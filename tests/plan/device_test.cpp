// Plans that copy their results to a device, with the fake driver.
#include <safetensors/read_plan.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "support/fake_driver.h"
#include "support/plan_support.h"
#include "support/plan_tuning.h"

namespace safetensors::test {
namespace {

constexpr std::size_t kKiB = 1024;

class DevicePlan : public DeviceTest {
 protected:
  DevicePlan() {
    PlanRandom random(1);
    std::vector<PlannedTensor> tensors;
    const auto add = [&](std::string_view name, Dtype dtype, const std::vector<std::uint64_t>& shape) {
      const std::size_t size = static_cast<std::size_t>(count_of(shape)) * bits(dtype) / 8;
      tensors.push_back({std::string(name), dtype, shape, random.bytes(size)});
    };
    for (const Dtype dtype : all_dtypes()) add(to_string(dtype), dtype, {12, 40, 8});  // small: read together
    add("large", Dtype::BF16, {300, 2048});
    add("wide", Dtype::F32, {64, 4096});
    add("empty", Dtype::F32, {0, 4});
    put(path, file_of(tensors, 0));
    Result<File> opened = File::open(path);
    EXPECT_TRUE(succeeds(opened));
    file.emplace(*std::move(opened));
  }

  // Returns the bytes that the same item has in memory of the host.
  [[nodiscard]] std::string expected(const std::string& name, const Slice& slice, std::optional<Dtype> cast) const {
    ReadPlan plan;
    EXPECT_TRUE(succeeds(plan.add(tensor(*file, name), slice, {}, cast)));
    const Result<ReadResult> result = plan.execute();
    EXPECT_TRUE(succeeds(result));
    return data_of(result->arrays[0]);
  }

  TemporaryDirectory directory;
  const std::string path = directory.path() + "/model.safetensors";
  std::optional<File> file;
  const CudaDriver used{SAFETENSORS_FAKE_CUDA};
};

Destination on_device(int device, std::uint64_t address, std::uint64_t size) {
  return {.bytes = {reinterpret_cast<std::byte*>(address), static_cast<std::size_t>(size)}, .device = device};
}

// Items of a plan. Each has memory on the device, and the bytes that this memory must hold after the plan.
class Wanted {
 public:
  explicit Wanted(const device::Cuda& cuda) : cuda_(cuda) {}
  void add(const Tensor& tensor, const Slice& slice, std::optional<Dtype> cast, std::string bytes) {
    memory_.push_back(std::make_unique<TestDeviceMemory>(cuda_, std::max<std::size_t>(bytes.size(), 1)));
    const Destination to = on_device(0, memory_.back()->address(), bytes.size());
    ASSERT_TRUE(succeeds(plan.add(tensor, slice, to, cast)));
    bytes_.push_back(std::move(bytes));
  }
  void expect_there(std::size_t item) const {
    EXPECT_TRUE(memory_[item]->bytes().substr(0, bytes_[item].size()) == bytes_[item]) << "item " << item;
  }
  void expect_all() const {
    for (std::size_t i = 0; i < bytes_.size(); ++i) expect_there(i);
  }
  ReadPlan plan;

 private:
  const device::Cuda& cuda_;
  std::vector<std::unique_ptr<TestDeviceMemory>> memory_;
  std::vector<std::string> bytes_;
};

// Also with one thread: it fills all slots of pinned memory, and must not wait for another one to empty them.
TEST_F(DevicePlan, CopiesEveryDtypeUnderAnyBudget) {
  for (const auto& [budget, threads] : {std::pair(std::uint64_t{0}, 0U),
                                        {std::uint64_t{1}, 0U},
                                        {std::uint64_t{3 << 20}, 0U},
                                        {std::uint64_t{3 << 20}, 1U}}) {
    driver.delay(50, static_cast<unsigned>(budget) + 1);
    Wanted wanted(*cuda);
    for (const TensorInfo& info : file->header().tensors()) {
      const std::string name(info.name);
      wanted.add(tensor(*file, name), Slice(), {}, expected(name, Slice(), {}));
    }
    ReadOptions with;
    with.memory_limit = budget;
    with.threads = threads;
    const Result<ReadResult> result = wanted.plan.execute(with);
    ASSERT_TRUE(succeeds(result));
    wanted.expect_all();
    EXPECT_EQ(result->report.bytes_device, wanted.plan.nbytes());
    EXPECT_GT(result->report.pinned_bytes, 0U);
    if (budget > 2 << 20) {
      EXPECT_LE(result->report.pinned_bytes, budget);
    }
    for (const Array& array : result->arrays) EXPECT_TRUE(array.bytes().empty());
    EXPECT_STREQ(driver.violation(), "");
  }
}

TEST_F(DevicePlan, PinsAtMostHalfOfBudget) {
  for (const std::uint64_t budget : {1ULL << 20, 4ULL << 20, 9ULL << 20, 64ULL << 20, 300ULL << 20}) {
    Wanted wanted(*cuda);
    wanted.add(tensor(*file, "large"), Slice(), {}, expected("large", Slice(), {}));
    ReadOptions with;
    with.memory_limit = budget;
    const Result<ReadResult> result = wanted.plan.execute(with);
    ASSERT_TRUE(succeeds(result));
    wanted.expect_all();
    EXPECT_LE(result->report.pinned_bytes, std::max<std::uint64_t>(budget / 2, 2 << 20));
  }
}

// A cuda_stream belongs to one device. The ring of another device cannot wait for it.
TEST_F(DevicePlan, RefusesCudaStreamForTwoDevices) {
  driver.devices(2);
  ReadPlan plan;
  const Tensor large = tensor(*file, "large");
  for (const int device : {0, 1}) ASSERT_TRUE(succeeds(plan.add(large, {}, on_device(device, 4096, large.nbytes()))));
  ReadOptions with;
  with.device_stream = &with;
  const Error error = error_of(plan.execute(with));
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_EQ(error.message, "device_stream is of one device, the plan's destinations are on 2: make a plan for each");
  EXPECT_EQ(error_of(plan.stream(with)).code, Errc::invalid_argument);
}

TEST_F(DevicePlan, MatchesHostOnRandomPlans) {
  const std::vector<std::string> names{"F32", "F16", "BF16", "F8_E4M3", "U8", "I64", "large", "wide", "empty"};
  for (unsigned seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    driver.delay(seed % 3 * 40, seed);
    Wanted wanted(*cuda);
    for (int i = 0; i < 12; ++i) {
      const std::string& name = names[random() % names.size()];
      const Tensor from = tensor(*file, name);
      std::optional<Dtype> cast;
      const bool floats = name != "U8" && name != "I64";
      if (floats && random() % 2 == 0) cast = random() % 2 == 0 ? Dtype::F32 : Dtype::BF16;
      Slice slice;
      if (random() % 3 == 0) slice = Slice::shard(static_cast<std::int64_t>(random() % 2), random() % 4, 4);
      if (random() % 4 == 0) slice = Slice{DimSlice::range({}, {}, -2), DimSlice::range(1, {}, 3)};
      wanted.add(from, slice, cast, expected(name, slice, cast));
    }
    ReadOptions with;
    with.threads = static_cast<unsigned>(1 + random() % 6);
    const ChunkBytes chunks(random() % 2 == 0 ? 0 : 4 * kKiB << random() % 8);
    const Result<ReadResult> result = wanted.plan.execute(with);
    ASSERT_TRUE(succeeds(result));
    wanted.expect_all();
    ASSERT_STREQ(driver.violation(), "");
  }
}

TEST_F(DevicePlan, MixesHostAndDevice) {
  Wanted wanted(*cuda);
  wanted.add(tensor(*file, "F32"), Slice(), {}, expected("F32", Slice(), {}));
  ASSERT_TRUE(succeeds(wanted.plan.add(tensor(*file, "F16"))));
  wanted.add(tensor(*file, "large"), Slice(), {}, expected("large", Slice(), {}));
  const Result<ReadResult> result = wanted.plan.execute();
  ASSERT_TRUE(succeeds(result));
  wanted.expect_there(0);
  wanted.expect_there(1);
  EXPECT_TRUE(data_of(result->arrays[1]) == expected("F16", Slice(), {}));
}

// The bytes completed, once a stream that nobody takes from reads no more.
std::uint64_t bytes_without_taker(const Stream& stream) {
  std::uint64_t bytes = 0;
  for (int quiet = 0; quiet < 30; ++quiet) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::uint64_t now = stream.report().value().bytes;
    if (std::exchange(bytes, now) != now) quiet = 0;
  }
  return bytes;
}

TEST_F(DevicePlan, StreamedDeviceResultsTakeNoBudget) {
  Wanted wanted(*cuda);
  const std::string bytes = expected("large", Slice(), {});
  for (int i = 0; i < 4; ++i) wanted.add(tensor(*file, "large"), Slice(), {}, bytes);
  ReadOptions with;
  with.memory_limit = 1 << 20;
  const Result<Stream> stream = wanted.plan.stream(with);
  ASSERT_TRUE(succeeds(stream));
  EXPECT_EQ(bytes_without_taker(*stream), wanted.plan.nbytes());
  wanted.expect_all();
}

// Pinned memory and results in memory of the host share the budget.
TEST_F(DevicePlan, MixedStreamKeepsBudget) {
  constexpr std::uint64_t kBudget = 16 << 20;
  for (const bool cast : {false, true}) {
    Wanted wanted(*cuda);
    const std::string bytes = expected("large", Slice(), {});
    wanted.add(tensor(*file, "large"), Slice(), {}, bytes);
    const std::optional<Dtype> to = cast ? std::optional(Dtype::F16) : std::nullopt;
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(succeeds(wanted.plan.add(tensor(*file, "large"), {}, {}, to)));
    ReadOptions with;
    with.memory_limit = kBudget;
    const Result<Stream> stream = wanted.plan.stream(with);
    ASSERT_TRUE(succeeds(stream));
    const std::uint64_t waiting = bytes_without_taker(*stream) - bytes.size();
    EXPECT_GE(waiting, 2 * bytes.size());
    EXPECT_LE(waiting + stream->report().value().pinned_bytes, kBudget);
  }
}

TEST_F(DevicePlan, StreamsOnlyCopiedItems) {
  const std::vector<const char*> names{"large", "F32", "wide", "BF16", "empty"};
  const ChunkBytes chunks(64 * kKiB);
  for (unsigned seed = 1; seed <= 15; ++seed) {
    SCOPED_TRACE(seed);
    driver.delay(300, seed);
    Wanted wanted(*cuda);
    for (const char* name : names) wanted.add(tensor(*file, name), Slice(), {}, expected(name, Slice(), {}));
    ReadOptions with;
    with.threads = 4;
    Result<Stream> stream = wanted.plan.stream(with);
    ASSERT_TRUE(succeeds(stream));
    for (std::size_t taken = 0; taken < names.size(); ++taken) {
      const Result<std::optional<StreamItem>> item = stream->next();
      ASSERT_TRUE(succeeds(item) && item->has_value());
      wanted.expect_there((*item)->index);
    }
    EXPECT_FALSE(stream->next().value().has_value());
  }
}

// Returns the error of stream() or of the first call of next() that fails.
Error error_of_stream(const ReadPlan& plan) {
  Result<Stream> stream = plan.stream();
  if (!stream) return stream.error();
  for (;;) {
    const Result<std::optional<StreamItem>> item = stream->next();
    if (!item) return item.error();
    if (!*item) return {};
  }
}

TEST_F(DevicePlan, ReportsDriverFailures) {
  for (const char* function : {"cuMemHostAlloc", "cuStreamCreate", "cuEventCreate", "cuMemcpyHtoDAsync_v2",
                               "cuEventRecord", "cuStreamSynchronize", "cuDevicePrimaryCtxRetain"}) {
    for (const bool streamed : {false, true}) {
      SCOPED_TRACE(std::string(function) + (streamed ? ", streamed" : ""));
      Wanted wanted(*cuda);
      wanted.add(tensor(*file, "large"), Slice(), {}, expected("large", Slice(), {}));
      const unsigned before = driver.calls(function);
      driver.fail(function, before + 1, 700, 0);
      const Error error = streamed ? error_of_stream(wanted.plan) : error_of(wanted.plan.execute());
      EXPECT_GT(driver.calls(function), before);
      EXPECT_EQ(error.code, Errc::device_failed) << error.to_string();
      EXPECT_STREQ(driver.violation(), "");
    }
  }
}

TEST_F(DevicePlan, LeavesNothingAfterCancel) {
  Wanted wanted(*cuda);
  wanted.add(tensor(*file, "large"), Slice(), {}, expected("large", Slice(), {}));
  ReadOptions with;
  const ChunkBytes chunks(64 * kKiB);
  with.progress = [](std::uint64_t, std::uint64_t) { return false; };
  EXPECT_EQ(error_of(wanted.plan.execute(with)).code, Errc::cancelled);
}

TEST_F(DevicePlan, IsUnsupportedWithoutDriver) {
  ReadPlan plan;
  ASSERT_TRUE(succeeds(plan.add(tensor(*file, "F32"), {}, on_device(0, 4096, 12 * 40 * 8 * 4))));
  const CudaDriver none("libno_such_driver.so.1");
  EXPECT_EQ(error_of(plan.execute()).code, Errc::unsupported);
  EXPECT_EQ(error_of(plan.stream()).code, Errc::unsupported);
}

TEST_F(DevicePlan, ChecksDestinations) {
  ReadPlan plan;
  EXPECT_EQ(error_of(plan.add(tensor(*file, "F32"), {}, on_device(0, 4096, 17))).message,
            "tensor `F32`: the result has 15360 bytes, the destination 17");
  EXPECT_EQ(error_of(plan.add(tensor(*file, "F32"), {}, {.device = 0})).message,
            "tensor `F32`: the result has 15360 bytes, the destination 0");
  Destination strided = on_device(0, 4096, 15360);
  const std::uint64_t strides[] = {1280, 32, 4};
  strided.strides = strides;
  EXPECT_EQ(error_of(plan.add(tensor(*file, "F32"), {}, strided)).message,
            "tensor `F32`: a destination on a device has no strides");
  ASSERT_TRUE(succeeds(plan.add(tensor(*file, "F32"), {}, on_device(5, 4096, 15360))));
  const Error error = error_of(plan.execute());
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_EQ(error.message, "there is no CUDA device 5, the number of devices is 1");
}

}  // namespace
}  // namespace safetensors::test
