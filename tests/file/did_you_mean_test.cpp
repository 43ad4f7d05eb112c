// The suggestion of the name that the caller probably meant.
#include "file/did_you_mean.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/sanitizers.h"

namespace safetensors::file {
namespace {

std::string best_of(std::string_view meant, const std::vector<std::string>& names) {
  DidYouMean similar(meant);
  for (const std::string& name : names) {
    if (!similar.offer(name)) break;
  }
  return std::string(similar.best());
}

// Whatever the order of the names.
void expect_best(std::string_view meant, std::vector<std::string> names, std::string_view best) {
  EXPECT_EQ(best_of(meant, names), best) << meant;
  EXPECT_EQ(best_of(meant, {names.rbegin(), names.rend()}), best) << meant << ", names reversed";
}

TEST(DidYouMean, PrefersFewestEdits) {
  expect_best("layers.0.w", {"w", "0.w", "layer.0.w"}, "layer.0.w");
  expect_best("lm_haed.weight", {"head.weight", "lm_head.weight", "lm_head.bias"}, "lm_head.weight");
  expect_best("h.10.w", {"h.1.w", "h.11.w.w", "x.h.10.w"}, "h.1.w");
}

TEST(DidYouMean, PrefersCaseAmongEqualEdits) {
  expect_best("X", {"e", "x", "y"}, "x");
  expect_best("layer.W", {"layer.b", "layer.w", "layer.x"}, "layer.w");
  expect_best("Model.W", {"model.b", "xodel.w", "model.w"}, "model.w");
}

TEST(DidYouMean, FindsAnotherCaseOfAnyLength) {
  expect_best("LM_HEAD.WEIGHT", {"weight", "lm_head.weight", "lm_head.bias"}, "lm_head.weight");
  expect_best("LM_HEAD.WEIGHT", {"model.LM_HEAD.WEIGHT", "lm_head.weight"}, "lm_head.weight");
}

TEST(DidYouMean, FallsBackToTails) {
  expect_best("wte.weight", {"b", "transformer.wte.weight"}, "transformer.wte.weight");
  expect_best("model.lm_head.weight", {"lm_head.weight", "weight"}, "lm_head.weight");
  expect_best("wte.weight", {"a.very.long.transformer.wte.weight", "transformer.wte.weight"}, "transformer.wte.weight");
}

TEST(DidYouMean, SaysNothingWhereNothingIsNear) {
  expect_best("something else", {"b", "lm_head.weight"}, "");
  expect_best("", {"a", "b"}, "");
  expect_best(std::string(200, 'x'), {std::string(200, 'x') + "y"}, "");
  expect_best("abcd", {"", "wxyz", std::string(200, 'a')}, "");
}

TEST(DidYouMean, CountsSwapOfNeighboursAsOneEdit) {
  expect_best("sl", {"info", "ls"}, "ls");
  expect_best("vresion", {"verify", "version"}, "version");
  expect_best("haeder", {"header", "hinder"}, "header");
  expect_best("abcd", {"bcda"}, "");  // a swap moves one character by one place only
  // The swapped characters are the last of one word of 64 bits and the first of the next.
  const std::string before(63, 'a');
  expect_best(before + "xyb", {before + "yxb"}, before + "yxb");
}

// The plain table. A swap of two neighbours is one edit.
std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> rows(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) rows[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      rows[i][j] = std::min({changed, rows[i - 1][j] + 1, rows[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
    }
  }
  return rows[a.size()][b.size()];
}

TEST(DidYouMean, CountsEditsLikePlainTable) {
  std::mt19937_64 random(20261122);
  for (int round = 0; round < (test::kSanitized ? 5'000 : 20'000); ++round) {
    std::string meant(1 + random() % 128, 'a');
    for (char& c : meant) c = static_cast<char>('a' + random() % 3);
    std::string name = meant;
    for (std::size_t i = random() % 12; i > 0 && !name.empty(); --i) {
      const std::size_t at = random() % name.size();
      const char c = static_cast<char>('a' + random() % 3);
      if (random() % 3 == 0)
        std::swap(name[at], name[std::min(at + 1, name.size() - 1)]);
      else if (random() % 3 == 0)
        name.erase(at, 1);
      else if (random() % 2 == 0)
        name.insert(at, 1, c);
      else
        name[at] = c;
    }
    if (name.empty() || name == meant || name.size() > 128) continue;
    const std::size_t limit = std::min<std::size_t>(8, std::max<std::size_t>(meant.size() / 4, 1));
    EXPECT_EQ(best_of(meant, {name}), edits_between(meant, name) <= limit ? name : "") << meant << " " << name;
  }
}

// The nearest of 100,000 is found wherever it stands.
TEST(DidYouMean, FindsOneOf100000) {
  std::vector<std::string> names;
  for (int i = 0; i < 100'000; ++i)
    names.push_back("model.layers." + std::to_string(i / 10) + ".mlp.experts." + std::to_string(i % 10) +
                    ".down_proj.weight");
  names.push_back("model.layers.10000.mlp.experts.0.up_proj.weight");
  EXPECT_EQ(best_of("model.layers.10000.mlp.experts.0.up_prj.weight", names), names.back());
  EXPECT_EQ(best_of("weight.model.layers.10000.mlp.experts.0.up_proj.weight", names), names.back());
}

// Names that have nothing in common cost the most: the work ends, and so does asking for names.
TEST(DidYouMean, BoundsWork) {
  DidYouMean similar(std::string_view("abababababababababababababababababababababababababababababababab"));
  const std::string other(
      "babababababababababababababababababababababababababababababababa"
      "c");
  std::size_t offers = 0;
  while (offers < 10'000'000 && similar.offer(std::string_view(other).substr(offers % 8))) ++offers;
  EXPECT_LT(offers, 10'000'000u);
  EXPECT_GT(offers, 10'000u);
}

}  // namespace
}  // namespace safetensors::file
