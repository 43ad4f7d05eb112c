// The files that a Writer writes, byte by byte, and the calls that it refuses.
#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/save.h>
#include <safetensors/writer.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "support/file_support.h"
#include "write/range_set.h"

namespace safetensors::test {
namespace {

using write::ByteRange;
using write::RangeSet;
using Names = std::vector<std::string>;

const std::vector<std::uint64_t> kShape4{4};

TensorData tensor(std::string_view name, Dtype dtype, ShapeView shape, std::string_view bytes) {
  return {.name = name, .dtype = dtype, .shape = shape, .bytes = bytes_of(bytes)};
}

// "a": 4 bytes of U8, "b": 2 x 2 of U16, "c": none.
Header sample_header() {
  HeaderBuilder builder;
  EXPECT_TRUE(succeeds(builder.add("a", Dtype::U8, {4})));
  EXPECT_TRUE(succeeds(builder.add("b", Dtype::U16, {2, 2})));
  EXPECT_TRUE(succeeds(builder.add("c", Dtype::F32, {0, 7})));
  return builder.build().value();
}

// Bit i of a number is byte i of the set.
RangeSet set_of(unsigned bits) {
  RangeSet set;
  for (std::uint64_t i = 0; i < 8; ++i) {
    if ((bits >> i & 1U) != 0) set.add({i, i + 1});
  }
  return set;
}

TEST(RangeSet, MergesLikeOneFlagPerByte) {
  for (unsigned a = 0; a < 256; ++a) {
    for (unsigned b = 0; b < 256; ++b) {
      RangeSet set = set_of(a), other = set_of(b);
      const std::optional<ByteRange> common = set.first_common(other);
      ASSERT_EQ(common.has_value(), (a & b) != 0);
      if (common) {
        const auto first = static_cast<unsigned>(std::countr_zero(a & b));
        ASSERT_EQ(common->begin, first);
        ASSERT_EQ(common->end, first + static_cast<unsigned>(std::countr_one((a & b) >> first)));
        continue;
      }
      set.merge(std::move(other));
      ASSERT_EQ(set.ranges(), set_of(a | b).ranges());
    }
  }
}

TEST(RangeSet, AgreesWithOneFlagPerByte) {
  constexpr std::uint64_t kSize = 6;
  for (std::uint64_t code = 0; code < 1296 * 36; ++code) {
    std::uint64_t digits = code;
    RangeSet coverage;
    bool flags[kSize] = {};
    for (int step = 0; step < 3; ++step) {
      const std::uint64_t begin = digits % 6, end = digits / 6 % 6 + 1;
      digits /= 36;
      if (begin >= end) continue;
      std::uint64_t taken = begin;
      while (taken < end && !flags[taken]) ++taken;
      RangeSet added({begin, end});
      const auto overlap = coverage.first_common(added);
      ASSERT_EQ(overlap.has_value(), taken != end);
      if (overlap) {
        std::uint64_t last = taken;
        while (last < end && flags[last]) ++last;
        ASSERT_EQ(*overlap, (ByteRange{taken, last}));
      } else {
        coverage.merge(std::move(added));
        std::fill(flags + begin, flags + end, true);
      }
      std::uint64_t gap = 0;
      while (gap < kSize && flags[gap]) ++gap;
      std::uint64_t stop = gap;
      while (stop < kSize && !flags[stop]) ++stop;
      const auto missing = coverage.first_gap(kSize);
      ASSERT_EQ(missing, gap == kSize ? std::nullopt : std::optional(ByteRange{gap, stop}));
      std::size_t runs = 0;  // ranges that touch are one range
      for (std::size_t i = 0; i < kSize; ++i) runs += flags[i] && (i == 0 || !flags[i - 1]) ? 1 : 0;
      ASSERT_EQ(coverage.ranges().size(), runs);
    }
  }
}

TEST(Serialize, RefusesWrongLengths) {
  const TensorData tensors[] = {tensor("a\n", Dtype::F32, kShape4, "0123456789")};
  const Error error = error_of(serialize(tensors));
  EXPECT_EQ(error.code, Errc::data_length);
  EXPECT_EQ(error.message, "tensor `a\\u{a}`: 10 bytes given, F32 [4] needs 16");
}

TEST(WriteFile, WritesBytesOfSerialize) {
  const TemporaryDirectory directory;
  const std::vector<std::uint64_t> large{300'000}, none{0};
  std::string bytes(300'000, 'x');
  bytes[299'999] = 'y';
  std::vector<TensorData> tensors{tensor("large", Dtype::U8, large, bytes), tensor("none", Dtype::F32, none, "")};
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back("small." + std::to_string(i));
  const std::vector<std::uint64_t> middle{2000};
  for (const std::string& name : names)
    tensors.push_back(tensor(name, Dtype::I8, middle, std::string_view(bytes).substr(0, 2000)));
  for (const Durability durability : {Durability::full, Durability::file, Durability::none}) {
    const std::string path = directory / "model";
    ASSERT_TRUE(succeeds(save(path, tensors, MetadataPairs{{"k", "v"}}, {.durability = durability})));
    EXPECT_TRUE(contents(path) == data_of(serialize(tensors, MetadataPairs{{"k", "v"}}).value()));
    EXPECT_EQ(directory.names(), Names{"model"});
  }
}

TEST(WriteFile, NamesPathInSystemErrors) {
  const Error error = error_of(save("/nonexistent/model", {}));
  EXPECT_EQ(error.code, Errc::open_failed);
  EXPECT_EQ(error.os_error, ENOENT);
  EXPECT_EQ(error.to_string(), "/nonexistent/model: cannot open its directory: no such file or directory");
}

// The file that is replaced is the very one that the tensors are views of.
TEST(WriteFile, SavesOverMappedFile) {
  const TemporaryDirectory directory;
  const std::string path = directory / "model";
  std::string bytes;
  for (int i = 0; i < 1'000'000; ++i) bytes += static_cast<char>('a' + i % 26);
  const std::vector<std::uint64_t> shape{bytes.size()};
  const TensorData first[] = {tensor("a", Dtype::U8, shape, bytes)};
  ASSERT_TRUE(succeeds(save(path, first)));
  const File file = File::open(path).value();
  const Array view = file.tensor("a").value().view().value();
  // A longer header moves the tensor's bytes within the file.
  const TensorData again[] = {
      {.name = "renamed, with a longer name", .dtype = Dtype::U8, .shape = shape, .bytes = view.bytes()}};
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(succeeds(save(path, again, MetadataPairs{{"round", std::to_string(round)}})));
    const Array saved = File::open(path).value().tensor(again[0].name).value().read().value();
    EXPECT_TRUE(text_of(saved.bytes()) == bytes);
    EXPECT_TRUE(text_of(view.bytes()) == bytes);
  }
}

class WriterTest : public testing::Test {
 protected:
  const TemporaryDirectory directory;
  const std::string path = directory / "model";
  const Header header = sample_header();
};

TEST_F(WriterTest, AcceptsPiecesInAnyOrder) {
  Writer writer = Writer::create(path, header).value();
  ASSERT_TRUE(succeeds(writer.write("a", 2, bytes_of("cd"))));
  ASSERT_TRUE(succeeds(writer.write("b", 0, bytes_of("12345678"))));
  ASSERT_TRUE(succeeds(writer.write("a", 0, bytes_of("ab"))));
  ASSERT_TRUE(succeeds(writer.commit()));
  const std::vector<std::uint64_t> b{2, 2}, c{0, 7};
  const TensorData tensors[] = {tensor("a", Dtype::U8, kShape4, "abcd"), tensor("b", Dtype::U16, b, "12345678"),
                                tensor("c", Dtype::F32, c, "")};
  EXPECT_EQ(contents(path), data_of(serialize(tensors).value()));
  EXPECT_EQ(directory.names(), Names{"model"});
}

TEST_F(WriterTest, IsClosedAndEmptyAfterMove) {
  Writer writer = Writer::create(path, header).value();
  EXPECT_EQ(writer.header().size(), 3u);
  Writer moved = std::move(writer);
  EXPECT_EQ(moved.header().size(), 3u);
  // NOLINTBEGIN(bugprone-use-after-move)
  EXPECT_EQ(writer.header().size(), 0u);
  EXPECT_EQ(writer.header().text().value(), Header().text().value());
  EXPECT_EQ(error_of(writer.write("a", 0, bytes_of("abcd"))).code, Errc::writer_closed);
  EXPECT_EQ(error_of(writer.commit()).code, Errc::writer_closed);
  // NOLINTEND(bugprone-use-after-move)
  writer = std::move(moved);
  EXPECT_EQ(writer.header().size(), 3u);
  ASSERT_TRUE(succeeds(writer.write("a", 0, bytes_of("abcd"))));
}

TEST_F(WriterTest, LeavesNothingWithoutCommit) {
  {
    Writer writer = Writer::create(path, header).value();
    ASSERT_TRUE(succeeds(writer.write("a", 0, bytes_of("abcd"))));
    EXPECT_NE(::access(path.c_str(), F_OK), 0);
    // On a file system without O_TMPFILE, a temporary.
    EXPECT_LE(directory.names().size(), 1u);
  }
  EXPECT_EQ(directory.names(), Names{});
}

TEST_F(WriterTest, NamesFirstMissingBytesOnCommit) {
  Writer writer = Writer::create(path, header).value();
  EXPECT_EQ(error_of(writer.commit()).message, "tensor `b`: bytes 0 to 8 of 8 were never written");
  ASSERT_TRUE(succeeds(writer.write("b", 0, bytes_of("1234"))));
  Error error = error_of(writer.commit());
  EXPECT_EQ(error.code, Errc::incomplete_write);
  EXPECT_EQ(error.message, "tensor `b`: bytes 4 to 8 of 8 were never written");
  EXPECT_EQ(error.path, path);
  ASSERT_TRUE(succeeds(writer.write("b", 5, bytes_of("678"))));
  EXPECT_EQ(error_of(writer.commit()).message, "tensor `b`: bytes 4 to 5 of 8 were never written");
  ASSERT_TRUE(succeeds(writer.write("b", 4, bytes_of("5"))));
  EXPECT_EQ(error_of(writer.commit()).message, "tensor `a`: bytes 0 to 4 of 4 were never written");
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
  ASSERT_TRUE(succeeds(writer.write("a", 0, bytes_of("abcd"))));
  ASSERT_TRUE(succeeds(writer.commit()));
}

TEST_F(WriterTest, RefusesOverlappingWrites) {
  Writer writer = Writer::create(path, header).value();
  ASSERT_TRUE(succeeds(writer.write("a", 1, bytes_of("bc"))));
  const Error error = error_of(writer.write("a", 0, bytes_of("xxxx")));
  EXPECT_EQ(error.code, Errc::overlapping_write);
  EXPECT_EQ(error.message, "tensor `a`: bytes 1 to 3 of 4 were already written");
  ASSERT_TRUE(succeeds(writer.write("a", 0, bytes_of("a"))));
  ASSERT_TRUE(succeeds(writer.write("a", 3, bytes_of("d"))));
  ASSERT_TRUE(succeeds(writer.write("b", 0, bytes_of("12345678"))));
  ASSERT_TRUE(succeeds(writer.commit()));
  EXPECT_EQ(contents(path).substr(contents(path).size() - 12), "12345678abcd");
}

TEST_F(WriterTest, RefusesBytesPastEndOfTensor) {
  Writer writer = Writer::create(path, header).value();
  const Error error = error_of(writer.write("a", 2, bytes_of("abc")));
  EXPECT_EQ(error.code, Errc::buffer_size);
  EXPECT_EQ(error.message, "tensor `a`: 3 bytes at byte 2 do not fit, it has 4");
  EXPECT_EQ(error_of(writer.write("a", ~std::uint64_t{0}, bytes_of("ab"))).code, Errc::buffer_size);
  EXPECT_EQ(error_of(writer.write("c", 0, bytes_of("a"))).code, Errc::buffer_size);
  EXPECT_TRUE(succeeds(writer.write("a", 4, {})));
  EXPECT_TRUE(succeeds(writer.write("c", 0, {})));
}

TEST_F(WriterTest, RefusesUnknownTensor) {
  Writer writer = Writer::create(path, header).value();
  const Error error = error_of(writer.write("x\x1b", 0, {}));
  EXPECT_EQ(error.code, Errc::not_found);
  EXPECT_EQ(error.message, "no tensor `x\\u{1b}` in the header");
}

TEST_F(WriterTest, CommitsEmptyHeaderWithoutWrite) {
  Writer writer = Writer::create(path, Header()).value();
  ASSERT_TRUE(succeeds(writer.commit()));
  EXPECT_EQ(contents(path), std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
}

TEST_F(WriterTest, ClaimsEachByteOnceAmongThreads) {
  HeaderBuilder builder;
  ASSERT_TRUE(succeeds(builder.add("a", Dtype::U8, {64'000})));
  Writer writer = Writer::create(path, builder.build().value(), {.durability = Durability::none}).value();
  std::atomic<int> written{0}, refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; i < 64; ++i) {
        const std::string part(1000, static_cast<char>('0' + i));
        const Status status = writer.write("a", i * 1000, bytes_of(part));
        if (status)
          ++written;
        else if (status.error().code == Errc::overlapping_write)
          ++refused;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(written, 64);
  EXPECT_EQ(refused, 3 * 64);
  ASSERT_TRUE(succeeds(writer.commit()));
  const std::string bytes = contents(path);
  for (std::size_t i = 0; i < 64; ++i)
    EXPECT_EQ(bytes.substr(bytes.size() - 64'000 + i * 1000, 1000), std::string(1000, static_cast<char>('0' + i)));
}

// The limit on the size of files makes the system refuse a write.
TEST_F(WriterTest, RepeatsFailureOfWrite) {
  put(path, "old");
  const int result = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    HeaderBuilder builder;
    (void)builder.add("a", Dtype::U8, {100'000});
    auto writer = Writer::create(path, builder.build().value(), {.durability = Durability::none});
    const rlimit limit{50'000, 50'000};
    if (!writer || ::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(2);
    const std::string bytes(1000, 'x');
    if (!writer->write("a", 0, bytes_of(bytes))) ::_exit(3);
    const Status failed = writer->write("a", 90'000, bytes_of(bytes));
    if (failed || failed.error().code != Errc::write_failed || failed.error().os_error != EFBIG) ::_exit(4);
    for (const Status& later : {writer->write("a", 2000, bytes_of(bytes)), writer->commit(), writer->commit()}) {
      if (later || later.error().message != failed.error().message) ::_exit(5);
    }
    writer = Result<Writer>(Error{});
    return true;
  });
  EXPECT_EQ(result, 0);
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(directory.names(), Names{"model"});
}

TEST_F(WriterTest, CopiesTensorsFromOtherFiles) {
  const std::string other = directory / "other";
  std::string bytes;
  for (int i = 0; i < 3'000'000; ++i) bytes += static_cast<char>(i % 253);
  const std::vector<std::uint64_t> shape{1000, 3000};
  const TensorData tensors[] = {tensor("x", Dtype::U8, shape, bytes),
                                tensor("w", Dtype::F32, kShape4, std::string_view(bytes).substr(0, 16))};
  ASSERT_TRUE(succeeds(save(other, tensors)));
  HeaderBuilder builder;
  ASSERT_TRUE(succeeds(builder.add("y", Dtype::U8, {1000, 3000})));
  ASSERT_TRUE(succeeds(builder.add("w", Dtype::F32, {4})));
  const Header merged = builder.build().value();
  const auto serialized = serialize(tensors).value();
  for (const File& file : {File::open(other).value(), File::open(other, {.access = Access::read}).value(),
                           File::from_memory(serialized.bytes(), nullptr).value()}) {
    Writer writer = Writer::create(path, merged).value();
    ASSERT_TRUE(succeeds(writer.copy("y", file.tensor("x").value())));
    ASSERT_TRUE(succeeds(writer.copy("w", file.tensor("w").value())));
    EXPECT_EQ(error_of(writer.copy("w", file.tensor("w").value())).code, Errc::overlapping_write);
    ASSERT_TRUE(succeeds(writer.commit()));
    const File result = File::open(path).value();
    EXPECT_TRUE(data_of(result.tensor("y").value().read().value()) == bytes);
    EXPECT_TRUE(data_of(result.tensor("w").value().read().value()) == bytes.substr(0, 16));
  }
}

TEST_F(WriterTest, RefusesCopyOfOtherDtypeOrShape) {
  const TensorData tensors[] = {tensor("a", Dtype::I8, kShape4, "abcd")};
  const auto serialized = serialize(tensors).value();
  const File file = File::from_memory(serialized.bytes(), nullptr).value();
  Writer writer = Writer::create(path, header).value();
  Error error = error_of(writer.copy("a", file.tensor("a").value()));
  EXPECT_EQ(error.code, Errc::dtype_mismatch);
  EXPECT_EQ(error.message, "tensor `a`: is U8, copied from I8");

  const std::vector<std::uint64_t> shape{2, 2};
  const TensorData reshaped[] = {tensor("a", Dtype::U8, shape, "abcd")};
  const auto other = serialize(reshaped).value();
  error = error_of(writer.copy("a", File::from_memory(other.bytes(), nullptr).value().tensor("a").value()));
  EXPECT_EQ(error.code, Errc::data_length);
  EXPECT_EQ(error.message, "tensor `a`: has shape [4], copied from [2, 2]");
  EXPECT_EQ(error_of(writer.copy("x", file.tensor("a").value())).code, Errc::not_found);
}

TEST_F(WriterTest, FailsForGoodAfterFailedCopy) {
  const std::string other = directory / "other";
  const TensorData tensors[] = {tensor("a", Dtype::U8, kShape4, "abcd")};
  ASSERT_TRUE(succeeds(save(other, tensors)));
  const File file = File::open(other, {.access = Access::read}).value();
  Writer writer = Writer::create(path, header).value();
  ASSERT_EQ(::truncate(other.c_str(), static_cast<off_t>(file.header().data_start() + 2)), 0);
  const Error error = error_of(writer.copy("a", file.tensor("a").value()));
  EXPECT_EQ(error.code, Errc::file_truncated);
  EXPECT_EQ(error.path, other);
  EXPECT_EQ(error.offset, file.header().data_start() + 2);
  for (const Status& later : {writer.write("b", 0, bytes_of("12345678")), writer.commit()}) {
    EXPECT_EQ(error_of(later).code, Errc::file_truncated);
    EXPECT_EQ(error_of(later).path, other);
  }
}

// A header of another program, in another order and with spaces, is written in our form with its offsets.
TEST_F(WriterTest, TakesHeaderOfOtherFile) {
  const Header parsed =
      Header::parse(R"({ "b" : {"shape":[2],"dtype":"U8","data_offsets":[0,2],"extra":1}, "a":{"dtype":"F32",)"
                    R"("shape":[],"data_offsets":[2,6]}})",
                    6)
          .value();
  Writer writer = Writer::create(path, parsed).value();
  ASSERT_TRUE(succeeds(writer.write("a", 0, bytes_of("aaaa"))));
  ASSERT_TRUE(succeeds(writer.write("b", 0, bytes_of("bb"))));
  ASSERT_TRUE(succeeds(writer.commit()));
  const File file = File::open(path).value();
  EXPECT_EQ(file.header().find("b")->begin, 0u);
  EXPECT_EQ(data_of(file.tensor("a").value().read().value()), "aaaa");
  EXPECT_EQ(data_of(file.tensor("b").value().read().value()), "bb");
}

}  // namespace
}  // namespace safetensors::test
