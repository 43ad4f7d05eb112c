#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/save.h>
#include <safetensors/writer.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>

#include "support/io_support.h"

namespace safetensors {
namespace {

using test::contents;
using test::put;
using test::succeeds;
using test::TemporaryDirectory;

using Reports = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

class WriterProgress : public testing::Test {
 protected:
  static constexpr std::size_t kSize = (std::size_t{40} << 20) + 3;

  Writer create(Durability durability, std::function<bool(std::uint64_t, std::uint64_t)> progress) {
    HeaderBuilder builder;
    EXPECT_TRUE(succeeds(builder.add("t", Dtype::U8, {kSize})));
    return Writer::create(path, builder.build().value(), {.durability = durability, .progress = std::move(progress)})
        .value();
  }
  void expect_complete(const Reports& reports) const {
    const std::uint64_t size = std::filesystem::file_size(path);
    ASSERT_GE(reports.size(), 3U);
    for (std::size_t i = 0; i < reports.size(); ++i) {
      EXPECT_EQ(reports[i].second, size);
      EXPECT_GT(reports[i].first, i == 0 ? 0 : reports[i - 1].first);
    }
    EXPECT_EQ(reports.back().first, size);
  }

  const TemporaryDirectory directory;
  const std::string path = directory / "t";
  const std::vector<std::byte> bytes = std::vector<std::byte>(kSize, std::byte{7});
};

TEST_F(WriterProgress, RunsInWritingThread) {
  for (const Durability durability : {Durability::none, Durability::full}) {
    for (const std::size_t piece : {kSize, std::size_t{3} << 20, std::size_t{100'000}}) {
      Reports reports;
      const auto self = std::this_thread::get_id();
      Writer writer = create(durability, [&](std::uint64_t done, std::uint64_t total) {
        EXPECT_EQ(std::this_thread::get_id(), self);
        reports.emplace_back(done, total);
        return true;
      });
      for (std::size_t at = 0; at < kSize; at += piece)
        ASSERT_TRUE(succeeds(writer.write("t", at, std::span(bytes).subspan(at, std::min(piece, kSize - at)))));
      ASSERT_TRUE(succeeds(writer.commit()));
      expect_complete(reports);
    }
  }
}

TEST_F(WriterProgress, IsReportedByAnyCopy) {
  const std::uint64_t shape[] = {kSize};
  const TensorData tensors[] = {{"t", Dtype::U8, shape, bytes}};
  ASSERT_TRUE(succeeds(save(directory / "from", tensors, std::nullopt, {.durability = Durability::none})));
  const Array serialized = serialize(tensors).value();
  for (const File& file :
       {File::open(directory / "from").value(), File::from_memory(serialized.bytes(), nullptr).value()}) {
    for (const Durability durability : {Durability::none, Durability::full}) {
      Reports reports;
      Writer writer = create(durability, [&](std::uint64_t done, std::uint64_t total) {
        reports.emplace_back(done, total);
        return true;
      });
      ASSERT_TRUE(succeeds(writer.copy("t", file.tensor("t").value())));
      ASSERT_TRUE(succeeds(writer.commit()));
      expect_complete(reports);
      EXPECT_TRUE(contents(path) == contents(directory / "from"));
    }
  }
}

TEST_F(WriterProgress, IsReportedBySaveAndCancelsIt) {
  const std::uint64_t shape[] = {kSize};
  const TensorData data[] = {{"t", Dtype::U8, shape, bytes}};
  ASSERT_TRUE(succeeds(save(directory / "from", data, std::nullopt, {.durability = Durability::none})));
  const NamedTensor of_file = File::open(directory / "from").value()["t"];
  for (const NamedTensor& tensor : {NamedTensor(data[0]), of_file}) {
    for (const Durability durability : {Durability::none, Durability::full}) {
      // With threads, only the last report is certain: the calling thread may write no chunk, or wait and repeat a
      // number.
      const bool threads = durability == Durability::full;
      Reports reports;
      std::size_t stop_at = threads ? 1 : 2;
      WriteOptions options{.durability = durability};
      options.progress = [&](std::uint64_t done, std::uint64_t total) {
        reports.emplace_back(done, total);
        return reports.size() != stop_at;
      };
      put(path, "old");
      const Status status = save(path, {tensor}, {}, options);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code, Errc::cancelled);
      EXPECT_EQ(reports.size(), stop_at);
      EXPECT_EQ(contents(path), "old");
      EXPECT_EQ(directory.names(), (std::vector<std::string>{"from", "t"}));
      reports.clear();
      stop_at = 0;
      ASSERT_TRUE(succeeds(save(path, {tensor}, {}, options)));
      const std::uint64_t size = std::filesystem::file_size(path);
      if (!threads) expect_complete(reports);
      EXPECT_TRUE(std::is_sorted(reports.begin(), reports.end()));
      EXPECT_EQ(reports.back(), std::pair(size, size));
      EXPECT_TRUE(contents(path) == contents(directory / "from"));
    }
  }
}

// Without bytes of tensors, no write reports anything. So commit() does, as save() does.
TEST_F(WriterProgress, IsReportedWithoutBytes) {
  HeaderBuilder builder;
  ASSERT_TRUE(succeeds(builder.add("t", Dtype::U8, {0})));
  const Header header = builder.build().value();
  for (const bool cancelled : {false, true}) {
    Reports reports;
    WriteOptions options;
    options.progress = [&](std::uint64_t done, std::uint64_t total) {
      reports.emplace_back(done, total);
      return !cancelled;
    };
    Writer writer = Writer::create(path, header, options).value();
    const Status status = writer.commit();
    EXPECT_EQ(status.ok(), !cancelled);
    const std::uint64_t size = header.file_bytes();
    EXPECT_EQ(reports, (Reports{{size, size}}));
    EXPECT_EQ(std::filesystem::exists(path), true);  // from the first turn
    if (cancelled) {
      EXPECT_EQ(status.error().code, Errc::cancelled);
    }
  }
}

TEST_F(WriterProgress, NeverRunsTwiceAtOnce) {
  std::atomic<int> running{0}, overlaps{0};
  std::uint64_t last = 0;
  Writer writer = create(Durability::full, [&](std::uint64_t done, std::uint64_t) {
    if (++running != 1) ++overlaps;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // for others to come
    last = done;
    --running;
    return true;
  });
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      const std::size_t begin = kSize / 3 * i;
      const std::size_t size = i == 2 ? kSize - begin : kSize / 3;
      EXPECT_TRUE(succeeds(writer.write("t", begin, std::span(bytes).subspan(begin, size))));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(overlaps, 0);
  ASSERT_TRUE(succeeds(writer.commit()));
  EXPECT_EQ(last, std::filesystem::file_size(path));
}

TEST_F(WriterProgress, CancelsAllLaterCalls) {
  put(path, "old");
  for (const Durability durability : {Durability::none, Durability::full}) {
    {
      int reports = 0;
      Writer writer = create(durability, [&](std::uint64_t, std::uint64_t) { return ++reports < 2; });
      const Status cancelled = writer.write("t", 0, std::span(bytes).first(kSize - 1));
      ASSERT_FALSE(cancelled);
      EXPECT_EQ(cancelled.error().code, Errc::cancelled);
      EXPECT_EQ(cancelled.error().message, "cancelled after 33554512 of " + std::to_string(kSize + 80) + " bytes");
      for (const Status& later : {writer.write("t", kSize - 1, std::span(bytes).first(1)), writer.commit()}) {
        ASSERT_FALSE(later);
        EXPECT_EQ(later.error().message, cancelled.error().message);
      }
      EXPECT_EQ(reports, 2);
    }
    EXPECT_EQ(contents(path), "old");
    EXPECT_EQ(directory.names(), std::vector<std::string>{"t"});
  }
}

}  // namespace
}  // namespace safetensors
