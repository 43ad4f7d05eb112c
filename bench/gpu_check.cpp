// Plans into memory of a CUDA device against the same plans into memory of the host.
//
// gpu_check [DRIVER [SEED]]: DRIVER is the driver's library, by default libcuda.so.1; the tests give the fake driver.
// Ends with 0 if all results are equal, with 1 if some are not, and with 77 if there is no driver or no device.
#include <safetensors/safetensors.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <thread>

#include "bench.h"
#include "device/cuda.h"
#include "format/dtype/cast.h"
#include "plan/tuning.h"

namespace {

using bench::must;
namespace st = safetensors;
namespace device = safetensors::device;
using device::CudaResult;

constexpr std::size_t kGuard = 64;
constexpr unsigned char kPoison = 0xA5;
constexpr int kSkipped = 77;

int failures = 0;
int compared = 0;

void expect(bool good, const std::string& what) {
  ++compared;
  if (good) return;
  ++failures;
  std::printf("FAILED: %s\n", what.c_str());
}

// The driver, with the primary context of device 0 current on the thread that made it.
class Gpu {
 public:
  explicit Gpu(std::shared_ptr<const device::Cuda> cuda) : cuda_(std::move(cuda)) {
    check(calls().device_get(&device_, 0), "cuDeviceGet");
    check(calls().primary_context_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
    current_.emplace(calls(), context_);
    check(current_->result(), "cuCtxPushCurrent");
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu() {
    current_.reset();
    (void)calls().primary_context_release(device_);
  }

  [[nodiscard]] const device::CudaCalls& calls() const { return cuda_->calls(); }
  [[nodiscard]] device::Context context() const { return context_; }
  void check(CudaResult result, const char* what) const {
    if (result == CudaResult::success) return;
    std::fprintf(stderr, "%s\n", cuda_->error(result, what).to_string().c_str());
    std::exit(1);
  }

 private:
  std::shared_ptr<const device::Cuda> cuda_;
  device::Device device_ = 0;
  device::Context context_ = nullptr;
  std::optional<device::Current> current_;
};

// Pinned memory that is filled with one byte value.
class Pinned {
 public:
  Pinned(const Gpu& gpu, std::size_t size, unsigned char byte) : gpu_(gpu) {
    gpu.check(gpu.calls().host_allocate(&memory_, size, 0), "cuMemHostAlloc");
    std::memset(memory_, byte, size);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { (void)gpu_.calls().host_free(memory_); }
  [[nodiscard]] const void* data() const { return memory_; }

 private:
  const Gpu& gpu_;
  void* memory_ = nullptr;
};

// Memory of the device at any alignment. It is filled with poison, and has guards before and behind it.
class Region {
 public:
  Region(const Gpu& gpu, std::size_t size, std::size_t skew = 0) : gpu_(gpu), size_(size), before_(kGuard + skew) {
    const std::size_t whole = before_ + size_ + kGuard;
    gpu.check(gpu.calls().memory_allocate(&base_, whole), "cuMemAlloc");
    const Pinned poison(gpu, whole, kPoison);
    gpu.check(gpu.calls().copy_to_device_async(base_, poison.data(), whole, nullptr), "cuMemcpyHtoDAsync");
    gpu.check(gpu.calls().stream_synchronize(nullptr), "cuStreamSynchronize");
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region() { (void)gpu_.calls().memory_free(base_); }

  [[nodiscard]] device::Address address() const { return base_ + before_; }
  // Returns whether the region holds these bytes, and whether its guards are unchanged.
  [[nodiscard]] bool holds(const std::string& bytes) const {
    std::string all(before_ + size_ + kGuard, '\0');
    gpu_.check(gpu_.calls().copy_from_device(all.data(), base_, all.size()), "cuMemcpyDtoH");
    const std::string guard(before_, static_cast<char>(kPoison));
    return all.substr(0, before_) == guard && all.substr(before_, size_) == bytes &&
           all.substr(before_ + size_) == std::string(kGuard, static_cast<char>(kPoison));
  }

 private:
  const Gpu& gpu_;
  std::size_t size_;
  std::size_t before_;
  device::Address base_ = 0;
};

std::string text_of(const st::Array& array) {
  const auto bytes = array.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The same plan twice: into memory of the host and into regions of the device.
class Pair {
 public:
  explicit Pair(const Gpu& gpu) : gpu_(gpu) {}

  // Leaves out items that no plan accepts, such as slices of F4 that end within a byte.
  void add(const st::Tensor& tensor, const st::Slice& slice = {}, std::optional<st::Dtype> cast = std::nullopt,
           std::size_t skew = 0) {
    const std::uint64_t before = host_.nbytes();
    if (!host_.add(tensor, slice, {}, cast).ok()) return;
    const auto size = static_cast<std::size_t>(host_.nbytes() - before);
    regions_.push_back(std::make_unique<Region>(gpu_, size, skew));
    const st::Destination to{.bytes = {reinterpret_cast<std::byte*>(regions_.back()->address()), size}, .device = 0};
    must(device_.add(tensor, slice, to, cast));
    names_.push_back(std::string(tensor.info().name));
  }

  [[nodiscard]] const st::ReadPlan& plan() const { return device_; }
  [[nodiscard]] const Region& region(std::size_t item) const { return *regions_[item]; }
  void read_host() {
    for (const st::Array& array : must(host_.execute()).arrays) wanted_.push_back(text_of(array));
  }
  void expect_item(std::size_t item, const std::string& what) const {
    expect(regions_[item]->holds(wanted_[item]), what + ": " + names_[item]);
  }
  void run(const st::ReadOptions& options, const std::string& what) {
    read_host();
    const st::ReadResult result = must(device_.execute(options));
    expect(result.report.bytes_device == host_.nbytes(), what + ": bytes copied to the device");
    for (std::size_t i = 0; i < regions_.size(); ++i) expect_item(i, what);
  }

 private:
  const Gpu& gpu_;
  st::ReadPlan host_;
  st::ReadPlan device_;
  std::vector<std::unique_ptr<Region>> regions_;
  std::vector<std::string> names_;
  std::vector<std::string> wanted_;
};

// Every dtype, large tensors, an empty tensor, and many small ones.
void write_file(const std::string& path, std::mt19937_64& random) {
  st::HeaderBuilder builder;
  for (const st::Dtype dtype : st::all_dtypes())
    must(builder.add(std::string(st::to_string(dtype)), dtype, {12, 40, 8}));
  must(builder.add("large", st::Dtype::BF16, {2500, 4096}));
  must(builder.add("wide", st::Dtype::F32, {64, 16384}));
  must(builder.add("odd", st::Dtype::U8, {1048583}));
  must(builder.add("empty", st::Dtype::F32, {0, 4}));
  for (int i = 0; i < 500; ++i) {
    must(builder.add("small." + std::to_string(i), st::Dtype::F16, {1 + static_cast<std::uint64_t>(i) % 40, 33}));
  }
  const st::Header header = must(builder.build());
  st::Writer writer = must(st::Writer::create(path, header, {.durability = st::Durability::none}));
  for (const st::TensorInfo& tensor : header.tensors()) {
    std::vector<std::uint64_t> words(tensor.nbytes() / 8 + 1);
    for (std::uint64_t& word : words) word = random();
    const auto bytes = std::as_bytes(std::span(words)).first(static_cast<std::size_t>(tensor.nbytes()));
    if (!bytes.empty()) must(writer.write(tensor.name, 0, bytes));
  }
  must(writer.commit());
}

class Checks {
 public:
  Checks(const Gpu& gpu, const char* driver, const st::File& file, std::uint64_t seed)
      : gpu_(gpu), file_(file), random_(seed) {
    st::plan::tuning.cuda_driver = driver;
  }

  void all() {
    whole();
    random_plans();
    small_ones();
    streamed();
    from_two_threads();
    after_work_of_a_stream();
    wrong_device();
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  [[nodiscard]] st::Tensor tensor(std::string_view name) const { return must(file_.tensor(name)); }

  void whole() {
    for (const std::uint64_t budget : {0ULL, 1ULL, 3ULL << 20, 64ULL << 20}) {
      for (const st::Cache cache : {st::Cache::keep, st::Cache::fill}) {
        Pair pair(gpu_);
        for (const st::TensorInfo& info : file_.header().tensors()) {
          if (!info.name.starts_with("small.")) pair.add(tensor(info.name), {}, {}, below(64));
        }
        st::ReadOptions options = options_;
        options.memory_limit = budget;
        options.cache = cache;
        st::plan::tuning.assume_uncached = true;  // keep reads from the device then
        pair.run(options, "whole, " + std::to_string(budget) + " bytes in flight");
        st::plan::tuning.assume_uncached = false;
      }
    }
  }

  st::Slice random_slice(std::span<const std::uint64_t> shape) {
    if (below(3) == 0 && !shape.empty()) {
      const auto dim = static_cast<std::int64_t>(below(shape.size()));
      return st::Slice::shard(dim, below(4), 4);
    }
    std::vector<st::DimSlice> dims;
    for (const std::uint64_t size : shape) {
      const auto some = static_cast<std::int64_t>(below(size + 1));
      const auto step = static_cast<std::int64_t>(1 + below(3));
      const std::uint64_t kind = below(5);
      if (kind == 0) dims.push_back(st::DimSlice::all());
      if (kind == 1) dims.push_back(size == 0 ? st::DimSlice::all() : st::DimSlice::at(-1));
      if (kind == 2) dims.push_back(st::DimSlice::range(some, {}, step));
      if (kind == 3) dims.push_back(st::DimSlice::range({}, {}, -step));
      if (kind == 4) dims.push_back(st::DimSlice::range({}, some));
    }
    return st::Slice(std::move(dims));
  }

  void random_plans() {
    const std::vector<st::Dtype> to{st::Dtype::F32, st::Dtype::BF16, st::Dtype::F16, st::Dtype::F64,
                                    st::Dtype::F8_E4M3};
    const auto tensors = file_.header().tensors();
    for (int round = 0; round < 30; ++round) {
      Pair pair(gpu_);
      for (int i = 0; i < 16; ++i) {
        const st::TensorInfo& info = tensors[below(below(2) == 0 ? tensors.size() : st::all_dtypes().size() + 4)];
        std::optional<st::Dtype> cast = to[below(to.size())];
        if (below(2) != 0 || !st::format::castable(info.dtype, *cast)) cast.reset();
        pair.add(tensor(info.name), below(4) == 0 ? st::Slice() : random_slice(info.shape), cast, below(64));
      }
      st::ReadOptions options = options_;
      options.threads = static_cast<unsigned>(1 + below(16));
      st::plan::tuning.chunk_bytes = below(2) == 0 ? 0 : std::uint64_t{4096} << below(10);
      options.memory_limit = below(2) == 0 ? 0 : std::uint64_t{1} << (16 + below(12));
      pair.run(options, "random plan " + std::to_string(round));
    }
    st::plan::tuning.chunk_bytes = 0;
  }

  void small_ones() {
    Pair pair(gpu_);
    for (int i = 499; i >= 0; --i) pair.add(tensor("small." + std::to_string(i)), {}, {}, below(64));
    pair.run(options_, "small tensors");
  }

  void streamed() {
    Pair pair(gpu_);
    for (const st::TensorInfo& info : file_.header().tensors()) pair.add(tensor(info.name));
    pair.read_host();
    st::ReadOptions options = options_;
    options.memory_limit = 8 << 20;
    st::Stream stream = must(pair.plan().stream(options));
    std::size_t seen = 0;
    for (;; ++seen) {
      const std::optional<st::StreamItem> item = must(stream.next());
      if (!item) break;
      pair.expect_item(item->index, "stream");
    }
    expect(seen == pair.plan().size(), "stream: number of items");
  }

  void from_two_threads() {
    std::vector<std::unique_ptr<Pair>> pairs;
    for (int i = 0; i < 2; ++i) {
      pairs.push_back(std::make_unique<Pair>(gpu_));
      pairs.back()->add(tensor("large"), {}, st::Dtype::F32);
      pairs.back()->add(tensor("wide"));
      pairs.back()->read_host();
    }
    std::vector<std::thread> threads;
    for (const auto& pair : pairs) {
      threads.emplace_back([&] { must(pair->plan().execute(options_)); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& pair : pairs) {
      for (std::size_t i = 0; i < 2; ++i) pair->expect_item(i, "two threads at once");
    }
  }

  // Work that a CUDA stream was given earlier must not end after the plan's copies.
  void after_work_of_a_stream() {
    device::Stream stream = nullptr;
    gpu_.check(gpu_.calls().stream_create(&stream, device::kStreamNonBlocking), "cuStreamCreate");
    {
      Pair pair(gpu_);
      pair.add(tensor("large"));
      const auto size = static_cast<std::size_t>(pair.plan().nbytes());
      const Pinned other(gpu_, size, 0x11);
      for (int i = 0; i < 20; ++i) {
        gpu_.check(gpu_.calls().copy_to_device_async(pair.region(0).address(), other.data(), size, stream),
                   "cuMemcpyHtoDAsync");
      }
      st::ReadOptions options = options_;
      options.device_stream = stream;
      pair.run(options, "after work of a stream");
      gpu_.check(gpu_.calls().stream_synchronize(stream), "cuStreamSynchronize");
      pair.expect_item(0, "after work of a stream, when that is done");
    }
    gpu_.check(gpu_.calls().stream_destroy(stream), "cuStreamDestroy");
  }

  void wrong_device() {
    st::ReadPlan plan;
    const st::Tensor from = tensor("wide");
    must(plan.add(from, {}, {.bytes = {reinterpret_cast<std::byte*>(4096), from.info().nbytes()}, .device = 99}));
    const auto result = plan.execute(options_);
    expect(!result && result.error().code == st::Errc::invalid_argument, "no such device");
  }

  const Gpu& gpu_;
  const st::File& file_;
  st::ReadOptions options_;
  std::mt19937_64 random_;
};

}  // namespace

int main(int count, char** arguments) {
  const char* const driver = count > 1 ? arguments[1] : "libcuda.so.1";
  const std::uint64_t seed = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1;
  auto cuda = device::Cuda::load(driver);
  if (!cuda && cuda.error().code == st::Errc::unsupported) {
    std::printf("not checked: %s\n", cuda.error().to_string().c_str());
    return kSkipped;
  }
  const Gpu gpu(must(std::move(cuda)));
  bench::Scratch scratch;
  const std::string path = scratch.file("check.safetensors");
  std::mt19937_64 random(seed);
  write_file(path, random);
  const st::File file = must(st::File::open(path));
  Checks(gpu, driver, file, seed).all();
  std::printf("%d of %d comparisons failed, seed %llu\n", failures, compared, static_cast<unsigned long long>(seed));
  return failures == 0 ? 0 : 1;
}
