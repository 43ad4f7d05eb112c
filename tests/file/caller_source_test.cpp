// Sources of callers that throw, that one thread at a time may call, and that name the size of their requests.
#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/read_plan.h>
#include <safetensors/source.h>
#include <safetensors/writer.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/file_support.h"
#include "support/plan_tuning.h"

namespace safetensors {
namespace {

using test::data_of;
using test::error_of;
using test::one_tensor;
using test::pattern;
using test::succeeds;
using test::TemporaryDirectory;
using test::tensor;
using test::two_tensors;

enum class Thrown { runtime_error, bad_alloc, number };

// Counts its calls, and throws at the call that the test chooses.
class OddSource final : public Source {
 public:
  explicit OddSource(std::string bytes) : bytes_(std::move(bytes)) {}

  [[nodiscard]] Result<std::uint64_t> size() const override {
    const Inside inside(*this);
    return std::uint64_t{bytes_.size()};
  }
  [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> destination) const override {
    const Inside inside(*this);
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(destination.size());
    }
    last_offset = offset;
    if (offset >= bytes_.size()) return std::size_t{0};
    const std::size_t count = std::min(destination.size(), bytes_.size() - static_cast<std::size_t>(offset));
    std::memcpy(destination.data(), bytes_.data() + offset, count);
    return count + lie;
  }
  [[nodiscard]] Memory memory(std::uint64_t offset, std::uint64_t size) const override {
    const Inside inside(*this);
    if (!in_memory || offset > bytes_.size() || size > bytes_.size() - offset) return {};
    const auto all = std::as_bytes(std::span(bytes_));
    return {all.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size)), nullptr};
  }
  [[nodiscard]] bool concurrent() const noexcept override { return !alone; }
  [[nodiscard]] std::uint64_t request_bytes() const noexcept override { return wanted; }

  [[nodiscard]] std::vector<std::size_t> requests() const {
    const std::lock_guard lock(mutex_);
    return std::exchange(requests_, {});
  }

  bool alone = false;
  std::uint64_t wanted = 0;
  bool in_memory = false;
  std::size_t lie = 0;
  Thrown thrown = Thrown::runtime_error;
  int throws_at = -1;  // number of calls before the one that throws; -1: none
  mutable std::atomic<int> calls{0};
  mutable std::atomic<std::uint64_t> last_offset{0};
  mutable std::atomic<bool> met{false};  // two threads were inside at once

 private:
  struct Inside {
    explicit Inside(const OddSource& source) : source_(source) {
      if (source_.inside_.fetch_add(1) != 0) source_.met = true;
      std::this_thread::yield();
      if (source_.calls++ != source_.throws_at) return;
      --source_.inside_;
      if (source_.thrown == Thrown::bad_alloc) throw std::bad_alloc();
      if (source_.thrown == Thrown::number) throw 7;
      throw std::runtime_error("the server is gone");
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    ~Inside() { --source_.inside_; }
    const OddSource& source_;
  };

  const std::string bytes_;
  mutable std::atomic<int> inside_{0};
  mutable std::mutex mutex_;
  mutable std::vector<std::size_t> requests_;
};

template <class T>
Status status_of(const Result<T>& result) {
  return result ? Status() : Status(result.error());
}

Status plan_all(const File& file, const ReadOptions& options, bool streamed) {
  ReadPlan plan;
  for (const Tensor& each : file) {
    if (Status status = plan.add(each); !status) return status;
    if (each.dtype() != Dtype::F32) continue;
    if (Status status = plan.add(each, {}, {}, Dtype::F16); !status) return status;
  }
  if (!streamed) return status_of(plan.execute(options));
  Result<Stream> stream = plan.stream(options);
  if (!stream) return std::move(stream).error();
  for (;;) {
    Result<std::optional<StreamItem>> next = stream->next();
    if (!next) return std::move(next).error();
    if (!*next) return {};
  }
}

Status copy_all(const File& file) {
  const TemporaryDirectory directory;
  Result<Writer> writer = Writer::create(directory / "copy.safetensors", file.header());
  if (!writer) return std::move(writer).error();
  for (const Tensor& each : file) {
    if (Status status = writer->copy(each.name(), each); !status) return status;
  }
  return writer->commit();
}

// All ways to the bytes of a file.
const std::vector<std::pair<const char*, std::function<Status(const File&)>>>& ways() {
  static const std::vector<std::pair<const char*, std::function<Status(const File&)>>> all = {
      {"open", [](const File&) { return Status(); }},
      {"view", [](const File& file) { return status_of(tensor(file, "a").view()); }},
      {"view_file", [](const File& file) { return status_of(file.view()); }},
      {"get", [](const File& file) { return test::kBigEndian ? Status() : status_of(file.get<float>("a")); }},
      {"read", [](const File& file) { return status_of(tensor(file, "b").read()); }},
      {"read_slice", [](const File& file) { return status_of(tensor(file, "a").read(":,1")); }},
      {"read_as", [](const File& file) { return status_of(tensor(file, "a").read_as<double>()); }},
      {"read_into",
       [](const File& file) {
         std::vector<std::byte> bytes(24);
         return tensor(file, "a").read_into(bytes);
       }},
      {"execute", [](const File& file) { return plan_all(file, {.threads = 2}, false); }},
      {"stream", [](const File& file) { return plan_all(file, {.threads = 2}, true); }},
      {"copy", copy_all},
      {"source",
       [](const File& file) -> Status {
         std::byte byte{};
         if (Result<std::uint64_t> size = file.source().size(); !size) return std::move(size).error();
         return status_of(file.source().read_at(0, {&byte, 1}));
       }},
  };
  return all;
}

TEST(CallerSource, ExceptionIsErrorInEveryCall) {
  for (const auto& [name, way] : ways()) {
    for (const Thrown thrown : {Thrown::runtime_error, Thrown::bad_alloc, Thrown::number}) {
      int throws_at = 0;
      for (bool more = true; more; ++throws_at) {
        const auto source = std::make_shared<OddSource>(two_tensors());
        source->thrown = thrown;
        source->throws_at = throws_at;
        const Result<File> file = File::from_source(source);
        const Status status = file ? way(*file) : Status(file.error());
        more = source->calls > throws_at;
        if (status) continue;  // memory() may throw
        SCOPED_TRACE(std::string(name) + " throws at call " + std::to_string(throws_at));
        const Error& error = status.error();
        EXPECT_TRUE(more);
        EXPECT_EQ(error.code, thrown == Thrown::bad_alloc ? Errc::out_of_memory : Errc::read_failed) << error.message;
        if (thrown == Thrown::bad_alloc) continue;
        const std::string text = thrown == Thrown::number ? "not derived from std::exception" : "the server is gone";
        EXPECT_TRUE(error.message.ends_with("of the source threw an exception: " + text)) << error.message;
        const bool of_size = error.message.find("size()") != std::string::npos;
        EXPECT_EQ(error.offset, of_size ? Error::kNoOffset : error.offset);
        EXPECT_EQ(error.offset == Error::kNoOffset, of_size);
      }
      EXPECT_GT(throws_at, 3);
    }
  }
}

TEST(CallerSource, ErrorHasPlaceOfCall) {
  const auto source = std::make_shared<OddSource>(two_tensors());
  source->wanted = 10;
  const File file = File::from_source(source).value();
  source->throws_at = source->calls + 2;  // memory() is not called with Access::read
  const Error error = error_of(tensor(file, "a").read());
  EXPECT_EQ(error.message, "tensor `a`: read_at() of the source threw an exception: the server is gone");
  EXPECT_EQ(error.offset, file.header().find("a")->file_offset + 20);
}

TEST(CallerSource, ReadsIfMemoryThrows) {
  for (int throws_at = 3; throws_at < 6; ++throws_at) {
    const auto source = std::make_shared<OddSource>(two_tensors());
    source->in_memory = true;
    source->throws_at = throws_at;  // size(), two reads of the header, then memory()
    const Result<File> file = File::from_source(source);
    ASSERT_TRUE(succeeds(file));
    const Result<Array> array = tensor(*file, "a").view();
    ASSERT_TRUE(succeeds(array));
    EXPECT_EQ(test::elements<float>(array), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(array->memory(), throws_at == 5 ? MemoryKind::borrowed : MemoryKind::owned);
  }
}

TEST(CallerSource, TooManyBytesAreError) {
  for (const std::uint64_t wanted : {std::uint64_t{0}, std::uint64_t{4}}) {
    const auto source = std::make_shared<OddSource>(two_tensors());
    source->wanted = wanted;
    const File file = File::from_source(source).value();
    source->lie = 1;
    const Error error = error_of(tensor(file, "a").read());
    EXPECT_EQ(error.code, Errc::read_failed);
    EXPECT_EQ(error.message, wanted == 0 ? "tensor `a`: source returned 25 bytes, 24 were asked for"
                                         : "tensor `a`: source returned 5 bytes, 4 were asked for");
  }
}

constexpr std::size_t kLarge = (std::size_t{5} << 20) + 12'345;

std::string large_file() {
  return one_tensor("U8", "[" + std::to_string(kLarge) + "]", kLarge);
}

TEST(CallerSource, OneThreadAtATime) {
  const auto source = std::make_shared<OddSource>(large_file());
  source->alone = true;
  const File file = File::from_source(source).value();
  EXPECT_FALSE(file.source().concurrent());
  const test::ChunkBytes chunks(65536);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&file, i] {
      EXPECT_TRUE(succeeds(plan_all(file, {.threads = 4}, i % 2 == 0)));
      EXPECT_TRUE(succeeds(file.view()));
      EXPECT_TRUE(succeeds(tensor(file, "t").read(Slice{DimSlice::range({}, {}, 3)})));
      EXPECT_TRUE(succeeds(file.source().size()));
      EXPECT_EQ(file.source().memory(0, 1).bytes.size(), 0U);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(source->met);
}

TEST(CallerSource, PlanUsesOneThreadForIt) {
  for (const bool alone : {false, true}) {
    const auto source = std::make_shared<OddSource>(large_file());
    source->alone = alone;
    const File file = File::from_source(source).value();
    ReadPlan plan;
    ASSERT_TRUE(succeeds(plan.add(tensor(file, "t"))));
    const auto threads = [&](unsigned wanted) {
      const test::ChunkBytes chunks(4096);
      return plan.execute({.threads = wanted}).value().report.threads;
    };
    if (alone) {
      EXPECT_EQ(threads(0), 1U);
    }
    EXPECT_EQ(threads(3), 3U) << "the caller decides";
  }
}

std::size_t largest(const std::vector<std::size_t>& requests) {
  return requests.empty() ? 0 : *std::ranges::max_element(requests);
}

TEST(CallerSource, RequestsHaveItsSize) {
  for (const std::size_t wanted : {std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{3} << 20}) {
    const auto source = std::make_shared<OddSource>(large_file());
    source->wanted = wanted;
    const File file = File::from_source(source).value();
    EXPECT_EQ(file.source().request_bytes(), wanted);
    (void)source->requests();
    const std::size_t whole = kLarge / wanted;
    const std::vector<std::function<Status()>> ways = {
        [&] { return plan_all(file, {.threads = 1}, false); }, [&] { return plan_all(file, {.threads = 3}, false); },
        [&] { return plan_all(file, {.threads = 3}, true); },  [&] { return status_of(file.view()); },
        [&] { return status_of(tensor(file, "t").read()); },   [&] { return status_of(tensor(file, "t").view()); },
    };
    for (std::size_t i = 0; i < ways.size(); ++i) {
      ASSERT_TRUE(succeeds(ways[i]())) << i;
      const std::vector<std::size_t> requests = source->requests();
      EXPECT_EQ(largest(requests), wanted) << i;
      EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(requests, wanted)), whole) << i;
      EXPECT_LE(requests.size(), whole + 1 + 4) << "only the end is shorter; Tensor::read asks for the rest";
    }
  }
}

TEST(CallerSource, SmallerLimitWins) {
  const auto source = std::make_shared<OddSource>(large_file());
  source->wanted = 1 << 20;
  const File file = File::from_source(source).value();
  (void)source->requests();
  ASSERT_TRUE(succeeds(plan_all(file, {.memory_limit = 256 << 10}, false)));
  EXPECT_EQ(largest(source->requests()), 128U << 10);
  ASSERT_TRUE(succeeds(plan_all(file, {}, false)));
  EXPECT_EQ(largest(source->requests()), std::size_t{1} << 20);
}

TEST(CallerSource, OddRequestSizesWork) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t wanted :
       {std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{65}, std::uint64_t{5000}, kMax}) {
    const auto source = std::make_shared<OddSource>(two_tensors());
    source->wanted = wanted;
    const Result<File> file = File::from_source(source);
    ASSERT_TRUE(succeeds(file));
    for (const auto& [name, way] : ways()) EXPECT_TRUE(succeeds(way(*file))) << name;
    EXPECT_LE(largest(source->requests()), wanted);
    EXPECT_EQ(test::elements<float>(tensor(*file, "a").read()), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  }
}

TEST(CallerSource, LongHeaderIsReadInItsRequests) {
  std::string header = "{";
  while (header.size() < (std::size_t{5} << 20)) header += ' ';
  const auto source = std::make_shared<OddSource>(test::file_bytes(header + "}", ""));
  source->wanted = 3 << 20;
  ASSERT_TRUE(succeeds(File::from_source(source)));
  std::vector<std::size_t> requests = source->requests();
  std::ranges::sort(requests);
  EXPECT_EQ(requests, (std::vector<std::size_t>{8, header.size() + 1 - (3 << 20), 3 << 20}));
}

}  // namespace
}  // namespace safetensors
