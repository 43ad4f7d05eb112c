// Every case of tests/data and every example of docs/format.md, read as a header and as a file in memory: the code, the
// offset and the message.
#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/header.h>

#include <cstddef>
#include <memory>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "support/case_file.h"

namespace cases {
// For GoogleTest.
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.where;
}
}  // namespace cases

namespace {

using cases::Case;
using safetensors::Error;
using safetensors::File;
using safetensors::Header;

constexpr std::uint64_t kLargestData = 1 << 20;  // of a file that is made in memory

std::string hint(const Error& error) {
  return "code " + std::string(to_string(error.code)) + ", byte " + std::to_string(error.offset) + ": " + error.message;
}

void expect_error(const Case& c, const Error& error) {
  EXPECT_EQ(to_string(error.code), c.code) << hint(error);
  EXPECT_EQ(error.offset, c.offset) << hint(error);
  EXPECT_EQ(error.message, c.message);
}

void expect_content(const Case& c, const Header& header) {
  if (c.file_size || !c.checks_content) return;
  ASSERT_EQ(header.size(), c.tensors.size());
  for (std::size_t i = 0; i < c.tensors.size(); ++i) {
    const safetensors::TensorInfo& tensor = header.tensors()[i];
    const cases::Tensor& expected = c.tensors[i];
    EXPECT_EQ(tensor.name, expected.name);
    EXPECT_EQ(header.dtype_name(tensor), expected.dtype);
    std::string shape = "[";
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) shape += (d ? "," : "") + std::to_string(tensor.shape[d]);
    EXPECT_EQ(shape + "]", expected.shape);
    EXPECT_EQ(tensor.begin, expected.begin);
    EXPECT_EQ(tensor.end, expected.end);
    EXPECT_EQ(tensor.file_offset, header.data_start() + tensor.begin);
    EXPECT_EQ(header.find(expected.name), &tensor);
  }
  EXPECT_EQ(header.metadata().present(), c.metadata.has_value());
  if (!c.metadata) return;
  ASSERT_EQ(header.metadata().size(), c.metadata->size());
  for (std::size_t i = 0; i < c.metadata->size(); ++i) {
    EXPECT_EQ(header.metadata()[i].first, (*c.metadata)[i].first);
    EXPECT_EQ(header.metadata()[i].second, (*c.metadata)[i].second);
  }
}

// Our writer can write every header that is accepted, and it means the same when read again.
void expect_same_again(const Case& c, const Header& header) {
  if (c.file_size) return;
  if (header.tolerated().any()) {
    EXPECT_EQ(header.text().error().code, safetensors::Errc::unsupported);
    return;
  }
  auto text = header.text();
  ASSERT_TRUE(text.ok()) << hint(text.error());
  auto again = Header::parse(*text, header.data_bytes());
  ASSERT_TRUE(again.ok()) << hint(again.error()) << *text;
  EXPECT_FALSE(again->tolerated().leading_whitespace);
  Case same = c;
  expect_content(same, *again);
  EXPECT_EQ(again->text().value(), *text);
}

class Conformance : public testing::TestWithParam<Case> {};

TEST_P(Conformance, ParsesHeaderAsSpecified) {
  const Case& c = GetParam();
  const auto header = cases::parse(c);
  if (c.code != "ok") {
    ASSERT_FALSE(header.ok()) << "accepted";
    expect_error(c, header.error());
    return;
  }
  ASSERT_TRUE(header.ok()) << hint(header.error());
  expect_content(c, *header);
  expect_same_again(c, *header);
}

TEST_P(Conformance, OpensFileAsSpecified) {
  const Case& c = GetParam();
  if (c.file_size || c.data_size > kLargestData) return;  // too large to be made; the header's test has it
  const std::string bytes = c.bytes + std::string(c.data_size, '\0');
  const auto file = File::from_memory(std::as_bytes(std::span(bytes)), nullptr, c.options);
  if (c.code != "ok") {
    ASSERT_FALSE(file.ok()) << "accepted";
    expect_error(c, file.error());
    return;
  }
  ASSERT_TRUE(file.ok()) << hint(file.error());
  expect_content(c, file->header());
  EXPECT_EQ(file->header().file_bytes(), bytes.size());
}

INSTANTIATE_TEST_SUITE_P(Cases, Conformance, testing::ValuesIn(cases::load_all(SAFETENSORS_TEST_DATA)),
                         [](const auto& param) { return param.param.name; });

TEST(Document, ShowsEachFormatError) {
  std::set<std::string> shown;
  for (const Case& c : cases::load_all(SAFETENSORS_TEST_DATA)) {
    if (c.name.starts_with("document_")) shown.insert(c.code);
  }
  std::set<std::string> all;
  for (int number = 0; number < 256; ++number) {
    const auto code = static_cast<safetensors::Errc>(number);
    if (safetensors::format_rule(code) != 0 && std::string_view(to_string(code)) != "unknown")
      all.insert(to_string(code));
  }
  EXPECT_EQ(all.size(), 18u);
  EXPECT_EQ(shown, all);
}

}  // namespace
