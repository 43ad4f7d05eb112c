// The contents of a Header, and the mistakes that a HeaderBuilder refuses. conformance_test.cpp tests which texts are
// accepted.
#include <safetensors/header.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <vector>

namespace st = safetensors;

namespace {

std::array<std::byte, 8> prefix(std::uint64_t length) {
  std::array<std::byte, 8> bytes;
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(length >> (8 * i));
  return bytes;
}

template <class Outcome>
void expect_error(const Outcome& outcome, st::Errc code, const std::string& message) {
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, code) << outcome.error().message;
  EXPECT_EQ(outcome.error().message, message);
}

const std::string kText =
    R"({"__metadata__":{"b":"2","a":"1"},"y":{"dtype":"U8","shape":[3],"data_offsets":[4,7]},)"
    R"("x":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"e":{"dtype":"I64","shape":[0,5],"data_offsets":[4,4]}})";

}  // namespace

TEST(HeaderLength, IsReadFromEightBytes) {
  const st::Result<std::uint64_t> length = st::Header::length(prefix(16), 24);
  ASSERT_TRUE(length.ok());
  EXPECT_EQ(*length, 16u);
}

TEST(HeaderLength, IsRefusedBeyondLimits) {
  EXPECT_TRUE(st::Header::length(prefix(100'000'000), 100'000'008).ok());
  expect_error(st::Header::length(prefix(100'000'001), ~0ull), st::Errc::header_too_large,
               "header too large: its length is given as 100000001 bytes, the limit is 100000000");
  expect_error(st::Header::length(prefix(17), 24), st::Errc::invalid_header_length,
               "invalid header length: the header ends at byte 25, the file has 24 (truncated download?)");
  const auto bytes = prefix(0);
  expect_error(st::Header::length(std::span(bytes).first(7), 7), st::Errc::header_too_small,
               "header too small: the file has 7 bytes, the length of the header alone takes 8");
}

TEST(HeaderLength, IsLimitedByCallerUpTo4GiB) {
  EXPECT_TRUE(st::Header::length(prefix(200'000'000), ~0ull, {.max_header_bytes = 200'000'000}).ok());
  EXPECT_FALSE(st::Header::length(prefix(9), 100, {.max_header_bytes = 8}).ok());
  expect_error(st::Header::length(prefix(0x100000000), ~0ull, {.max_header_bytes = ~0ull}), st::Errc::header_too_large,
               "header too large: its length is given as 4294967296 bytes, the limit is 4294967295");
}

TEST(Header, ListsTensorsByOffset) {
  const st::Header header = st::Header::parse(kText, 7).value();
  std::string by_offset;
  for (const st::TensorInfo& tensor : header.tensors()) by_offset += tensor.name;
  EXPECT_EQ(by_offset, "xey");
  const st::TensorList list = header.tensors();
  EXPECT_EQ(list.size(), 3U);
  EXPECT_EQ(list[2].name, "y");
}

TEST(Header, FindsTensorsWithAllFields) {
  const st::Header header = st::Header::parse(kText, 7).value();
  const st::TensorInfo* y = header.find("y");
  ASSERT_NE(y, nullptr);
  EXPECT_EQ(y->dtype, st::Dtype::U8);
  EXPECT_EQ(st::Shape(y->shape), st::Shape{3});
  EXPECT_EQ(y->begin, 4u);
  EXPECT_EQ(y->end, 7u);
  EXPECT_EQ(y->file_offset, 8 + kText.size() + 4);
  EXPECT_EQ(header.find("z"), nullptr);
  EXPECT_EQ(header.find(""), nullptr);
  EXPECT_EQ(header.file_bytes(), 8 + kText.size() + 7);
}

TEST(Header, SortsAndFindsMetadata) {
  const st::Header header = st::Header::parse(kText, 7).value();
  ASSERT_EQ(header.metadata().size(), 2u);
  EXPECT_EQ(header.metadata()[0].first, "a");
  EXPECT_EQ(header.metadata()[1].second, "2");
  EXPECT_EQ(header.metadata().find("b"), "2");
  EXPECT_FALSE(header.metadata().find("c"));
}

TEST(Header, TellsEmptyFromAbsentMetadata) {
  const st::Header empty = st::Header::parse(R"({"__metadata__":{}})", 0).value();
  EXPECT_TRUE(empty.metadata().present());
  EXPECT_TRUE(empty.metadata().empty());
  const st::Header null = st::Header::parse(R"({"__metadata__":null})", 0).value();
  EXPECT_FALSE(null.metadata().present());
  EXPECT_FALSE(null.metadata().find("a"));
}

TEST(Header, DescribesEmptyFileByDefault) {
  const st::Header header;
  EXPECT_EQ(header.size(), 0u);
  EXPECT_EQ(header.text().value(), "{}      ");
  EXPECT_EQ(header.data_start(), 16u);
  EXPECT_TRUE(header.tensors().begin() == header.tensors().end());
  EXPECT_EQ(header.find("a"), nullptr);
}

TEST(Header, GivesTextLikeWriter) {
  const st::Header header = st::Header::parse(kText, 7).value();
  EXPECT_EQ(
      header.text().value(),
      R"({"__metadata__":{"a":"1","b":"2"},"x":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("e":{"dtype":"I64","shape":[0,5],"data_offsets":[4,4]},"y":{"dtype":"U8","shape":[3],"data_offsets":[4,7]}})");
}

TEST(Header, ServesManyThreadsAtOnce) {
  const st::Header header = st::Header::parse(kText, 7).value();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      EXPECT_EQ(header.tensors()[0].name, "x");
      EXPECT_EQ(header.metadata()[0].first, "a");
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Header, ReportsLeadingWhiteSpace) {
  EXPECT_FALSE(st::Header::parse(" {}", 0).ok());
  const st::Header header = st::Header::parse(" {}", 0, {.allow_leading_whitespace = true}).value();
  EXPECT_TRUE(header.tolerated().leading_whitespace);
}

TEST(HeaderBuilder, PadsToAlignment) {
  st::HeaderBuilder builder;
  ASSERT_TRUE(builder.add("a", st::Dtype::U8, {1}).ok());
  for (std::uint32_t alignment = 1; alignment <= 65536; alignment *= 2) {
    const st::Header header = builder.build({.data_alignment = alignment}).value();
    EXPECT_EQ(header.data_start() % alignment, 0u);
    EXPECT_LT(header.data_start(), 70 + alignment);
  }
  EXPECT_EQ(builder.build({.metadata_slack = 100}).value().header_bytes(), 160u);
  for (const std::uint32_t alignment : {3u, 12u, 131072u}) {
    expect_error(builder.build({.data_alignment = alignment}), st::Errc::invalid_alignment,
                 "data_alignment is " + std::to_string(alignment) + ", it must be a power of two from 1 to 65536");
  }
}

TEST(HeaderBuilder, RefusesWhatReadersRefuse) {
  st::HeaderBuilder builder;
  ASSERT_TRUE(builder.add("a", st::Dtype::U8, {1}).ok());
  expect_error(builder.add("a", st::Dtype::U8, {2}), st::Errc::duplicate_name, "a tensor named `a` was added before");
  expect_error(builder.add("__metadata__", st::Dtype::U8, {2}), st::Errc::reserved_name,
               "a tensor cannot be named __metadata__");
  expect_error(builder.add("\xff", st::Dtype::U8, {2}), st::Errc::invalid_utf8,
               "tensor name `\\xff` is not valid UTF-8 at byte 0");
  expect_error(builder.metadata("k\xff", "v"), st::Errc::invalid_utf8,
               "metadata key `k\\xff` is not valid UTF-8 at byte 1");
  expect_error(builder.metadata("k", "ab\xff"), st::Errc::invalid_utf8,
               "metadata value of `k` is not valid UTF-8 at byte 2");
  expect_error(builder.add("b", st::Dtype::F4, {3}), st::Errc::misaligned_size,
               "The slice is slicing for subbytes dtypes, and the slice does not end up at a byte boundary, this is "
               "invalid. tensor `b`: [3] elements of 4 bits do not fill whole bytes");
  expect_error(builder.add("b", st::Dtype::U8, {1ull << 61}), st::Errc::size_overflow,
               "overflow computing buffer size from shape and/or element type: tensor `b`, U8 [2305843009213693952], "
               "has more than 2^64-1 bits");
  expect_error(builder.add("b", static_cast<st::Dtype>(0), {1}), st::Errc::invalid_argument,
               "tensor `b`: unknown dtype 0");
  ASSERT_TRUE(builder.metadata("k", "v").ok());
  expect_error(builder.metadata("k", "w"), st::Errc::duplicate_name, "a metadata key `k` was added before");
  EXPECT_EQ(builder.build().value().size(), 1u);  // what was refused left nothing behind
}

TEST(HeaderBuilder, RefusesHeadersOverLimit) {
  st::HeaderBuilder builder;
  ASSERT_TRUE(builder.metadata("k", std::string(99'999'000, 'v')).ok());
  EXPECT_TRUE(builder.build().ok());
  expect_error(
      builder.build({.metadata_slack = 1000}), st::Errc::header_too_large,
      "header too large: 99999025 bytes of text, 1000 of slack, aligned to 8, are over the limit of 100000000");
}

TEST(HeaderBuilder, KeepsGivenOrder) {
  st::HeaderBuilder builder;
  ASSERT_TRUE(builder.add("z", st::Dtype::U8, {3}));
  ASSERT_TRUE(builder.add("a", st::Dtype::F64, {1}));
  const st::Header header = builder.build({.keep_order = true}).value();
  EXPECT_EQ(header.find("z")->begin, 0U);
  EXPECT_EQ(header.find("a")->begin, 3U);
  EXPECT_EQ(header.text().value(),
            "{\"z\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
            "\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[3,11]}}     ");
}
