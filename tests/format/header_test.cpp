// The text of a Header, and the mistakes that a HeaderBuilder refuses. conformance_test.cpp tests which texts are
// accepted, and all that a Header tells of them.
#include <safetensors/header.h>

#include <gtest/gtest.h>

#include <string>

namespace st = safetensors;

namespace {

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
  EXPECT_EQ(header.find("z"), nullptr);
  EXPECT_FALSE(header.metadata().find("c"));
  EXPECT_EQ(
      header.text().value(),
      R"({"__metadata__":{"a":"1","b":"2"},"x":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("e":{"dtype":"I64","shape":[0,5],"data_offsets":[4,4]},"y":{"dtype":"U8","shape":[3],"data_offsets":[4,7]}})");
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
