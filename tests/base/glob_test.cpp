// Shell patterns for names: each kind of wildcard, incomplete patterns, and the time that many stars take.
#include "base/glob.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace safetensors::base {
namespace {

TEST(GlobMatch, MatchesLikeShell) {
  const struct {
    std::string_view pattern, name;
    bool matches;
  } cases[] = {
      {"", "", true},
      {"a", "a", true},
      {"a", "b", false},
      {"*", "", true},
      {"*", "abc", true},
      {"*", ".a/b", true},
      {"?a", ".a", true},
      {"a*c", "abc", true},
      {"a*c", "abd", false},
      {"a*b*c", "aXbYbc", true},
      {"a**", "a", true},
      {"?", "", false},
      {"?", "ab", false},
      {"?", "\xc3\xb6", true},
      {"[a-c]", "b", true},
      {"[a-c]", "d", false},
      {"[!a-c]", "d", true},
      {"[^a]", "a", false},
      {"[]a]", "]", true},
      {"[!]a]", "]", false},
      {"[a-]", "-", true},
      {"[a", "[a", true},
      {"[", "[", true},
      {"\\*", "*", true},
      {"\\*", "a", false},
      {"a\\", "a\\", true},
      {"[\xc3\xa0-\xc3\xb6]", "\xc3\xa4", true},
      {"m-*-of-*.s", "m-1-of-2.s", true},
  };
  for (const auto& each : cases)
    EXPECT_EQ(glob_match(each.pattern, each.name), each.matches) << each.pattern << " " << each.name;
}

// A matcher that tries every length for every star would not end.
TEST(GlobMatch, TakesPolynomialTimeForManyStars) {
  std::string pattern;
  for (int i = 0; i < 500; ++i) pattern += "a*";
  EXPECT_FALSE(glob_match(pattern + "b", std::string(5000, 'a')));
}

TEST(IsGlob, FindsWildcards) {
  for (const char* text : {"*", "a?", "x[0]", "\\*"}) EXPECT_TRUE(is_glob(text)) << text;
  for (const char* text : {"", "model.safetensors", "a]", "\\"}) EXPECT_FALSE(is_glob(text)) << text;
}

}  // namespace
}  // namespace safetensors::base
