// Any plan over any files, read in any way, gives the same results as a naive reader.
#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/read_plan.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

#include "support/plan_support.h"
#include "support/plan_tuning.h"
#include "support/sanitizers.h"

namespace safetensors {
namespace {

using namespace test;

class PlanProperty : public testing::TestWithParam<int> {
 protected:
  PlanProperty() : random_(static_cast<std::uint64_t>(GetParam())) {}

  static constexpr int kKinds = 4;  // of opening a file: cold, cached, from a source, from memory

  void open_files() {
    chunk_ = random_.of(std::vector<std::uint64_t>{64, 4096, 5000, 65536, 70000, 1 << 20, 8 << 20});
    for (std::uint64_t n = 1 + random_.up_to(2); n > 0; --n) {
      files_.push_back(
          random_file(random_, std::max<std::uint64_t>(chunk_, 4096), random_.one_in(4) ? 6 << 20 : 400'000));
      Result<File> opened = open(files_.back(), static_cast<int>(random_.up_to(kKinds - 1)));
      ASSERT_TRUE(succeeds(opened));
      opened_.push_back(*std::move(opened));
    }
  }
  Result<File> open(const PlannedFile& file, int kind) {
    if (kind == 2) {
      auto source = std::make_shared<ScriptedSource>(file.bytes);
      source->most = 1 + static_cast<std::size_t>(random_.up_to(100'000)) + (file.bytes.size() >> 6);
      return File::from_source(source);
    }
    if (kind == 3) return File::from_memory(std::as_bytes(std::span(file.bytes)), nullptr);
    const std::string path = directory_ / (std::to_string(opened_.size()) + ".safetensors");
    put(path, file.bytes);
    if (kind == 0) cold_.push_back(path);
    return File::open(path, {.access = random_.one_in(2) ? Access::map : Access::read});
  }
  void make_plan() {
    for (std::uint64_t n = random_.up_to(random_.one_in(4) ? 300 : 25); n > 0; --n) add_item();
    if (random_.one_in(3))  // all of it, as it lies there
      for (std::size_t f = 0; f < files_.size(); ++f)
        for (const PlannedTensor& tensor : files_[f].tensors)
          add({.tensor = &tensor,
               .slice = {},
               .cast = {},
               .shape = tensor.shape,
               .result = tensor.bytes,
               .memory = {},
               .expected = {},
               .strides = {}},
              f);
  }
  void add_item() {
    const auto f = static_cast<std::size_t>(random_.up_to(files_.size() - 1));
    if (std::optional<PlannedItem> item = random_item(random_, random_.of(files_[f].tensors))) add(*std::move(item), f);
  }
  void add(PlannedItem planned, std::size_t file) {
    items_.push_back(std::move(planned));
    PlannedItem& item = items_.back();
    Destination to;
    if (!item.memory.empty()) to = {std::as_writable_bytes(std::span(item.memory)), item.strides};
    const Tensor from = tensor(opened_[file], item.tensor->name);
    const Status status = plan_.add(from, item.slice ? Slice(*item.slice) : Slice(), to, item.cast);
    ASSERT_TRUE(succeeds(status));
  }

  ReadOptions options() {
    ReadOptions options;
    options.threads = random_.one_in(4) ? 0 : static_cast<unsigned>(1 + random_.up_to(19));
    plan::tuning.chunk_bytes = random_.one_in(4) ? 0 : chunk_;
    options.memory_limit = random_.of(std::vector<std::uint64_t>{0, 1, 5000, 100'000, 1 << 20, std::uint64_t{1} << 40});
    plan::tuning.assume_uncached = random_.one_in(4);
    options.cache = random_.of(std::vector<Cache>{Cache::automatic, Cache::keep, Cache::fill});
    return options;
  }
  void expect_item(std::size_t number, const Array& array) {
    const PlannedItem& item = items_[number];
    SCOPED_TRACE("item " + std::to_string(number) + ", " + item.tensor->name + " of " +
                 std::string(to_string(item.tensor->dtype)) + (item.slice ? ", sliced" : "") +
                 (item.cast ? ", cast" : "") + (item.strides.empty() ? "" : ", strided"));
    EXPECT_EQ(array.dtype(), item.cast.value_or(item.tensor->dtype));
    EXPECT_TRUE(std::ranges::equal(ShapeView(array.shape()), item.shape));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array.bytes().data()) % (item.memory.empty() ? 64 : 1), 0U);
    EXPECT_TRUE(!item.strides.empty() || data_of(array) == item.result);
    EXPECT_TRUE(item.memory == item.expected);
  }
  void forget_results() {
    for (PlannedItem& item : items_) std::ranges::fill(item.memory, '\x5a');
    for (const std::string& path : cold_) (void)make_cold(path);
  }

  void execute() {
    forget_results();
    const Result<ReadResult> result = plan_.execute(options());
    ASSERT_TRUE(succeeds(result));
    ASSERT_EQ(result->arrays.size(), items_.size());
    for (std::size_t i = 0; i < items_.size(); ++i) expect_item(i, result->arrays[i]);
    EXPECT_EQ(result->report.bytes, plan_.nbytes());
  }
  void stream() {
    forget_results();
    Result<Stream> stream = plan_.stream(options());
    ASSERT_TRUE(succeeds(stream));
    std::map<std::size_t, Array> arrays;
    for (;;) {
      Result<std::optional<StreamItem>> next = stream->next();
      ASSERT_TRUE(succeeds(next));
      if (!*next) break;
      if (random_.one_in(2)) expect_item((**next).index, (**next).array);
      EXPECT_TRUE(arrays.emplace((**next).index, std::move((**next).array)).second);
    }
    ASSERT_EQ(arrays.size(), items_.size());
    for (const auto& [item, array] : arrays) expect_item(item, array);
    EXPECT_EQ(stream->report().value().bytes, plan_.nbytes());
  }

  PlanRandom random_;
  const TemporaryDirectory directory_;
  std::uint64_t chunk_ = 0;
  std::deque<PlannedFile> files_;
  std::vector<File> opened_;
  std::vector<std::string> cold_;
  std::deque<PlannedItem> items_;
  ReadPlan plan_;
  const ChunkBytes chunks_{0};  // options() chooses, and these restore
  const AssumeUncached uncached_;
};

TEST_P(PlanProperty, MatchesNaiveReader) {
  open_files();
  make_plan();
  ASSERT_FALSE(HasFatalFailure());
  for (int again = 0; again < 2; ++again) {
    execute();
    stream();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PlanProperty, testing::Range(0, kSanitized ? 15 : 80));

// Jobs end where rows do, which is at no round number of elements.
TEST(PlanCast, PlacesRowsThatFillNoChunk) {
  for (const std::uint64_t columns : {std::uint64_t{4}, std::uint64_t{2002}}) {
    const std::vector<PlannedTensor> tensors = {
        {.name = "t", .dtype = Dtype::F32, .shape = {2000, columns}, .bytes = PlanRandom(1).bytes(2000 * columns * 4)}};
    const Result<File> file = File::from_source(std::make_shared<ScriptedSource>(file_of(tensors, 0)));
    ASSERT_TRUE(succeeds(file));
    std::string rows;
    for (std::uint64_t row = 0; row < 2000; ++row)
      rows += tensors[0].bytes.substr(row * columns * 4, (columns - 1) * 4);
    ReadPlan plan;
    ASSERT_TRUE(
        succeeds(plan.add(tensor(*file, "t"), Slice{DimSlice::all(), DimSlice::range(0, -1)}, {}, Dtype::BF16)));
    const test::ChunkBytes chunks(4096);
    const Result<ReadResult> result = plan.execute({.threads = 1});
    ASSERT_TRUE(succeeds(result));
    EXPECT_TRUE(data_of(result->arrays[0]) == cast_bytes(Dtype::F32, rows, Dtype::BF16)) << columns;
  }
}

}  // namespace
}  // namespace safetensors
