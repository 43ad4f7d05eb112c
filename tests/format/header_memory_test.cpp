// The size of a header limits the memory for parsing it, whatever the header contains.
#include <gtest/gtest.h>
#include <safetensors/header.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "support/allocation_counter.h"
#include "support/file_support.h"

namespace {

using safetensors::Header;
using safetensors::test::repeated;

constexpr std::string_view kFields = "\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]";
constexpr std::size_t kBytes = 12 << 20;

void expect_bounded(const std::string& text) {
  SCOPED_TRACE(text.substr(0, 100));
  const allocations::Peak peak;
  { const auto header = Header::parse(text, 0); }
  EXPECT_LE(peak.bytes(), 6 * text.size() + (1 << 20)) << text.size() << " bytes of text";
}

std::string entry(std::size_t i, std::string_view more) {
  return "\"" + std::to_string(i) + "\":{" + std::string(more) + std::string(kFields) + "}";
}

TEST(HeaderMemory, IsBoundedForRepeatedMembers) {
  const auto always = [](const std::string& member) { return [member](std::size_t) { return member; }; };
  const auto number = [](std::size_t i) { return "\"" + std::to_string(i) + "\""; };
  const std::string fields(kFields);
  const struct {
    std::string_view open, close;
    std::function<std::string(std::size_t)> member;
  } cases[] = {
      // Tensors: in order, in no order, of one name, with fields that are ignored.
      {"{", "}", [](std::size_t i) { return entry(i, ""); }},
      {"{", "}", [](std::size_t i) { return entry(i * 7919 % 1000003, ""); }},
      {"{", "}", always("\"\":{" + fields + "}")},
      {"{", "}", [](std::size_t i) { return entry(i, "\"\":0,"); }},
      {"{", "}", [](std::size_t i) { return entry(i, "\"\":0,\"x\":0,"); }},
      // Dimensions and shapes.
      {R"({"a":{"dtype":"U8","data_offsets":[0,0],"shape":[)", "]}}", always("0")},
      {"{", "}",
       [&](std::size_t i) { return number(i) + R"(:{"dtype":"U8","shape":[0,0,0,0,0,0,0,0],"data_offsets":[0,0]})"; }},
      {"{\"a\":{", "}}", always("\"shape\":[0,0]")},
      // Metadata: keys, one key, and whole objects.
      {"{\"__metadata__\":{", "}}", [&](std::size_t i) { return number(i) + ":\"\""; }},
      {"{\"__metadata__\":{", "}}", always("\"\":\"\"")},
      {"{", "}", always(R"("__metadata__":{"":""})")},
      {"{", "}", always(R"("__metadata__":{"":"","a":""})")},
      {"{", "}", always(R"("__metadata__":{})")},
      // Values and fields that are ignored.
      {R"({"a":{"x":[)", "]}}", always("0")},
      {"{\"a\":{", "}}", always("\"\":0")},
      {"{\"a\":{", "}}", [&](std::size_t i) { return number(i) + ":0"; }},
      {"{\"a\":{", "}}", always("\"offsets\":0")},
  };
  for (const auto& each : cases) expect_bounded(repeated(each.open, each.close, kBytes, each.member));
}

// Shapes of 512 KiB: each gets a block of its own. Small shapes between them share blocks.
TEST(HeaderMemory, IsBoundedForHalfEmptyBlocks) {
  std::string zeros = "0";
  for (int i = 1; i < 65536; ++i) zeros += ",0";
  const auto tensor = [](std::size_t i, const std::string& shape) {
    return "\"" + std::to_string(i) + "\":{\"dtype\":\"U8\",\"shape\":[" + shape + "],\"data_offsets\":[0,0]}";
  };
  for (const std::size_t large : {1U, 2U, 3U, 4U, 7U}) {
    for (const std::size_t count : {std::size_t{20}, 14 * (large + 1)}) {
      std::string text = "{";
      for (std::size_t i = 0; i < count; ++i) {
        text += (i > 0 ? "," : "") + tensor(i, i % (large + 1) < large ? zeros : "0");
      }
      expect_bounded(text + "}");
    }
  }
}

// Shapes of up to 16384 dimensions (128 KiB) share blocks of 2 MiB. Each larger shape gets a block of its own.
TEST(HeaderMemory, IsBoundedForShapesOfAnySize) {
  for (const std::size_t rank : {9u, 100u, 1000u, 8000u, 16384u, 16385u, 20000u, 32769u, 50000u, 65537u, 90000u}) {
    std::string zeros = "0";
    for (std::size_t i = 1; i < rank; ++i) zeros += ",0";
    expect_bounded(repeated("{", "}", kBytes, [&](std::size_t i) {
      return "\"" + std::to_string(i) + "\":{\"dtype\":\"U8\",\"shape\":[" + zeros + "],\"data_offsets\":[0,0]}";
    }));
  }
}

TEST(HeaderMemory, IsBoundedForShapeOfCommas) {
  expect_bounded("{\"a\":{\"shape\":[" + std::string(kBytes, ',') + "]}}");
  expect_bounded("{\"a\":{\"shape\":[0 x" + std::string(kBytes, ',') + "]}}");
}

}  // namespace
