// Sizes: every form that the command and the Python package accept, exact digits, and the text for people.
#include "base/byte_size.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace safetensors::base {
namespace {

TEST(ByteSize, ReadsNumbersWithUnits) {
  const struct {
    std::string_view text;
    std::optional<std::uint64_t> bytes;
  } cases[] = {
      {"0", 0},
      {"007", 7},
      {"4096", 4096},
      {"12b", 12},
      {"1KB", 1000},
      {"1kib", 1024},
      {"5GB", 5'000'000'000},
      {"5 GiB", 5'368'709'120},
      {" \t2TB\n", 2'000'000'000'000},
      {"1.5gb", 1'500'000'000},
      {"0.5MiB", 524'288},
      {"1.5", 1},
      {"0.0009765625KiB", 1},
      {"0.0009765624KiB", 0},
      {"1.99999999999999999999999999KB", 1999},
      {"18446744073709551615", UINT64_MAX},
      {"18446744073709551616", std::nullopt},
      {"16777216TiB", std::nullopt},
      {"", std::nullopt},
      {"GB", std::nullopt},
      {".5GB", std::nullopt},
      {"5.GB", std::nullopt},
      {"5iB", std::nullopt},
      {"5G", std::nullopt},
      {"5K", std::nullopt},
      {"5PB", std::nullopt},
      {"5GBs", std::nullopt},
      {"-5", std::nullopt},
      {"+5", std::nullopt},
      {"1e3", std::nullopt},
      {"5 G B", std::nullopt},
      {"5\xc2\xa0GB", std::nullopt},
      {std::string_view("5\0", 2), std::nullopt},
  };
  for (const auto& each : cases) EXPECT_EQ(parse_size(each.text), each.bytes) << each.text;
}

TEST(ByteSize, KeepsDigitsOfLargeNumbers) {
  EXPECT_EQ(size_digits("99999999999TB"), "99999999999000000000000");
  EXPECT_EQ(size_digits("000"), "0");
  EXPECT_EQ(size_digits(std::string(1000, '9') + "B"), std::string(1000, '9'));
}

TEST(ByteSize, WritesSizesForPeople) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(size_text(UINT64_MAX), "16.0 EiB");
}

}  // namespace
}  // namespace safetensors::base
