// ParseOptions::accept: the faults that are counted, the text of unknown dtypes, and what no new file may have.
#include <gtest/gtest.h>
#include <safetensors/header.h>
#include <safetensors/slice.h>

#include <string>

#include "format/header/header.h"
#include "format/header/header_writer.h"

namespace safetensors {
namespace {

constexpr std::string_view kFaults =
    R"({"b":{"dtype":"X\"9","shape":[3],"data_offsets":[3,6]},"c":{"dtype":"U8","shape":[1],"data_offsets":[6,7]},)"
    R"("a":{"dtype":"X8","shape":[],"data_offsets":[0,3]}})";
constexpr std::uint64_t kDataBytes = 9;

Header parse_all(std::string_view text, std::uint64_t data_bytes) {
  return Header::parse(text, data_bytes, {.accept = Accept::all()}).value();
}

TEST(HeaderAccept, CountsFaults) {
  const Header header = parse_all(kFaults, kDataBytes);
  const Tolerated expected{.unknown_dtypes = 2, .unused_bytes = 2};
  EXPECT_EQ(header.tolerated(), expected);
  EXPECT_EQ(to_string(expected), "2 tensors of unknown dtypes, 2 unused bytes at the end");
  EXPECT_EQ(to_string(Tolerated{.unknown_dtypes = 1}), "1 tensor of unknown dtype");
  EXPECT_EQ(to_string(Tolerated{.unused_bytes = 1}), "1 unused byte at the end");
  EXPECT_EQ(to_string(Tolerated()), "");
  EXPECT_FALSE(Header().tolerated().any());
  EXPECT_EQ(header.data_bytes(), kDataBytes);
}

TEST(HeaderAccept, NeedsFlagOfEachFault) {
  for (int flags = 0; flags < 4; ++flags) {
    const Accept accept{.unknown_dtypes = (flags & 1) != 0, .unused_bytes = flags > 1};
    EXPECT_EQ(Header::parse(kFaults, kDataBytes, {.accept = accept}).ok(), flags == 3) << flags;
  }
}

TEST(HeaderAccept, CountsNothingInValidFile) {
  const std::string_view text = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  const Header header = parse_all(text, 2);
  EXPECT_FALSE(header.tolerated().any());
  EXPECT_EQ(header.text().value(), Header::parse(text, 2).value().text().value());
}

TEST(HeaderAccept, KeepsTextOfUnknownDtypes) {
  const Header header = parse_all(kFaults, kDataBytes);
  EXPECT_EQ(header.find("a")->dtype, Dtype::UNKNOWN);
  EXPECT_EQ(header.dtype_name(*header.find("a")), "X8");
  EXPECT_EQ(header.dtype_name(*header.find("b")), "X\"9");
  EXPECT_EQ(header.dtype_name(*header.find("c")), "U8");
  EXPECT_EQ(to_string(Dtype::UNKNOWN), "unknown");
  EXPECT_FALSE(parse_dtype("unknown"));
}

TEST(HeaderAccept, KeepsTextOfUnknownDtypesWhenCompact) {
  format::HeaderBuffer text{std::string(kFaults)};
  const auto state = format::parse_state(std::move(text), kDataBytes, {.accept = Accept::all()}).value();
  state->compact();
  const Header header = detail::Access<Header>::make(state);
  EXPECT_EQ(header.dtype_name(*header.find("b")), "X\"9");
}

TEST(HeaderAccept, KeepsTextOfManyUnknownDtypes) {
  std::string text = "{";
  for (int i = 0; i < 3000; ++i) {
    const std::string name = std::to_string(i);
    text += "\"" + name + "\":{\"dtype\":\"" + (i % 3 == 0 ? "U8" : "X" + name) +
            "\",\"shape\":[1],\"data_offsets\":[" + name + "," + std::to_string(i + 1) + "]},";
  }
  text.back() = '}';
  const Header header = parse_all(text, 3000);
  EXPECT_EQ(header.tolerated().unknown_dtypes, 2000u);
  for (const TensorInfo& tensor : header.tensors()) {
    const std::string expected = tensor.begin % 3 == 0 ? "U8" : "X" + std::string(tensor.name);
    ASSERT_EQ(header.dtype_name(tensor), expected);
  }
}

// The smallest entries: the bounds of the parser's lists count on their size.
TEST(HeaderAccept, ReadsEmptyDtypes) {
  std::string text = "{";
  for (int i = 0; i < 2000; ++i)
    text += "\"" + std::to_string(i) + R"(":{"dtype":"","shape":[],"data_offsets":[0,0]},)";
  text.back() = '}';
  EXPECT_EQ(parse_all(text, 0).tolerated().unknown_dtypes, 2000u);
  const Header one = parse_all(R"({"":{"dtype":"","shape":[],"data_offsets":[0,0]}})", 0);
  EXPECT_EQ(one.dtype_name(*one.find("")), "");
}

TEST(HeaderAccept, NeverWritesFaults) {
  for (const auto& [data_bytes, text] :
       {std::pair(std::uint64_t{1}, R"({"a":{"dtype":"X","shape":[],"data_offsets":[0,1]}})"),
        std::pair(std::uint64_t{2}, R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})")}) {
    const Header header = parse_all(text, data_bytes);
    EXPECT_EQ(header.text().error().code, Errc::unsupported);
    EXPECT_EQ(header.text().error().message, "cannot write this header: its file has " + to_string(header.tolerated()) +
                                                 ", which the format does not allow");
    EXPECT_EQ(parse_all(format::header_text(header), data_bytes).tolerated(), header.tolerated());
  }
  HeaderBuilder builder;
  const Status added = builder.add("a", Dtype::UNKNOWN, {1});
  EXPECT_EQ(added.error().code, Errc::invalid_argument);
  EXPECT_EQ(added.error().message, "tensor `a`: has an unknown dtype, expected one of the format's");
}

TEST(HeaderAccept, SlicesNoUnknownDtype) {
  const std::uint64_t shape[] = {4};
  EXPECT_EQ(Slice().resolve(Dtype::UNKNOWN, shape).error().code, Errc::dtype_mismatch);
}

}  // namespace
}  // namespace safetensors
