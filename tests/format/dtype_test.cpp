#include "format/dtype/dtype.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>

namespace st = safetensors;

namespace {

struct Row {
  const char* name;
  unsigned rank, bits;
  int number, code;
};

// Pinned: a change of any of these breaks files, programs or the order that writers keep.
constexpr Row kRows[] = {
    {"BOOL", 0, 8, 1, 6},
    {"F4", 1, 4, 22, 17},
    {"F6_E2M3", 2, 6, 20, 15},
    {"F6_E3M2", 3, 6, 21, 16},
    {"U8", 4, 8, 2, 1},
    {"I8", 5, 8, 3, 0},
    {"F8_E5M2", 6, 8, 16, 12},
    {"F8_E4M3", 7, 8, 15, 10},
    {"F8_E8M0", 8, 8, 17, 14},
    {"F8_E4M3FNUZ", 9, 8, 18, 11},
    {"F8_E5M2FNUZ", 10, 8, 19, 13},
    {"I16", 11, 16, 4, 0},
    {"U16", 12, 16, 5, 1},
    {"F16", 13, 16, 6, 2},
    {"BF16", 14, 16, 7, 4},
    {"I32", 15, 32, 8, 0},
    {"U32", 16, 32, 9, 1},
    {"F32", 17, 32, 10, 2},
    {"C64", 18, 64, 14, 5},
    {"F64", 19, 64, 11, 2},
    {"I64", 20, 64, 12, 0},
    {"U64", 21, 64, 13, 1},
};

}  // namespace

TEST(Dtype, PinsAllProperties) {
  ASSERT_EQ(st::all_dtypes().size(), std::size(kRows));
  for (const Row& row : kRows) {
    const auto dtype = static_cast<st::Dtype>(row.number);
    EXPECT_EQ(st::to_string(dtype), row.name);
    EXPECT_EQ(st::parse_dtype(row.name), dtype) << row.name;
    EXPECT_EQ(st::format::rank(dtype), row.rank) << row.name;
    EXPECT_EQ(st::bits(dtype), row.bits) << row.name;
    EXPECT_EQ(st::format::dlpack_code(dtype), row.code) << row.name;
    EXPECT_EQ(st::all_dtypes()[row.rank], dtype) << row.name;
  }
}

TEST(Dtype, AcceptsExactNamesOnly) {
  for (const Row& row : kRows) {
    const std::string name = row.name;
    EXPECT_FALSE(st::parse_dtype(name + " ")) << name;
    EXPECT_FALSE(st::parse_dtype(" " + name)) << name;
    EXPECT_FALSE(st::parse_dtype(name + std::string(1, '\0'))) << name;
    std::string lower = name;
    lower[0] = static_cast<char>(lower[0] | 0x20);
    EXPECT_FALSE(st::parse_dtype(lower)) << name;
  }
  for (const char* const other : {"", "F", "F33", "float16", "F8_E4M3FN", "F8_E4M3FNUZZ", "C128", "BF32", "U4"}) {
    EXPECT_FALSE(st::parse_dtype(other)) << other;
  }
}

// A perfect hash finds them: no text of one or two letters may be taken for another.
TEST(Dtype, RefusesOtherShortTexts) {
  std::size_t found = 0;
  for (int a = 0; a < 256; ++a) {
    found += st::parse_dtype(std::string{static_cast<char>(a)}).has_value();
    for (int b = 0; b < 256; ++b) {
      found += st::parse_dtype(std::string{static_cast<char>(a), static_cast<char>(b)}).has_value();
      for (int c = 0; c < 256; c += 1) {
        found +=
            st::parse_dtype(std::string{static_cast<char>(a), static_cast<char>(b), static_cast<char>(c)}).has_value();
      }
    }
  }
  EXPECT_EQ(found, 3u + 10u);  // U8 I8 F4, and ten of three letters
}

TEST(Dtype, GivesNoNameToUnknownNumbers) {
  for (const int number : {0, 23, 254}) {
    EXPECT_EQ(st::to_string(static_cast<st::Dtype>(number)), "?");
  }
}
