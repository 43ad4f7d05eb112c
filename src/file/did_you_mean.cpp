// Ranks names by their likeness to the name that the caller gave: by edits, then by case, then by a common tail.
#include "file/did_you_mean.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/printable.h"

namespace safetensors::file {
namespace {

constexpr std::uint64_t kMaxSteps = 30'000'000;  // cells of the tables of edits, per suggestion
constexpr std::uint64_t kStepsPerTable = 16;     // to compare the ends of the names, and to clear the rows
constexpr std::uint64_t kMaxNames = 2'000'000;   // further names are ignored
constexpr std::size_t kMaxEdits = 8;

char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

struct SameButForCase {
  bool operator()(char a, char b) const noexcept { return lower(a) == lower(b); }
};

bool is_tail(std::string_view whole, std::string_view tail) {
  return whole.size() > tail.size() && whole.ends_with(tail) && whole[whole.size() - tail.size() - 1] == '.';
}

}  // namespace

DidYouMean::DidYouMean(std::string_view meant) noexcept
    : meant_(meant), max_edits_(std::min(kMaxEdits, std::max<std::size_t>(meant.size() / 4, 1))) {}

// Number of bytes to insert, delete or change, and of neighbours to swap, to turn `name` into the given name. No byte
// changes after a swap. If this number exceeds limit, the result is limit + 1. Equal ends of the names need no edit.
// Only the cells of the usual table that lie near its diagonal can hold limit or less. The lengths differ by at most
// limit.
template <class Same>
std::size_t DidYouMean::distance(std::string_view name, Same same, std::size_t limit) noexcept {
  std::string_view meant = meant_;
  for (; !name.empty() && !meant.empty() && same(name.back(), meant.back()); name.remove_suffix(1))
    meant.remove_suffix(1);
  for (; !name.empty() && !meant.empty() && same(name.front(), meant.front()); name.remove_prefix(1))
    meant.remove_prefix(1);
  // Rows i, i - 1 and i - 2. A cell is at most kMaxLength + 1.
  std::array<std::array<std::uint8_t, kMaxLength + 1>, 3> rows{};
  for (std::size_t j = 0; j <= meant.size(); ++j) rows[0][j] = static_cast<std::uint8_t>(j);
  steps_ += kStepsPerTable;
  for (std::size_t i = 1; i <= name.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& above = rows[(i - 1) % 3];
    const std::size_t first = i > limit ? i - limit : 1;
    const std::size_t last = std::min(meant.size(), i + limit);
    std::size_t least = first == 1 ? i : limit + 1;
    row[first - 1] = static_cast<std::uint8_t>(least);
    for (std::size_t j = first; j <= last; ++j) {
      std::size_t edits = above[j - 1] + (same(name[i - 1], meant[j - 1]) ? 0U : 1U);
      edits = std::min(edits, std::size_t{1} + std::min(above[j], row[j - 1]));
      if (i > 1 && j > 1 && same(name[i - 1], meant[j - 2]) && same(name[i - 2], meant[j - 1]))
        edits = std::min(edits, std::size_t{1} + rows[(i - 2) % 3][j - 2]);
      row[j] = static_cast<std::uint8_t>(edits);
      least = std::min(least, edits);
    }
    if (last < meant.size()) row[last + 1] = static_cast<std::uint8_t>(limit + 1);  // the row below looks at it
    steps_ += last + 1 - first;
    if (least > limit) return limit + 1;
  }
  return std::min<std::size_t>(rows[name.size() % 3][meant.size()], limit + 1);
}

DidYouMean::Likeness DidYouMean::compare(std::string_view name) noexcept {
  const auto [shorter, longer] = std::minmax({name.size(), meant_.size()});
  const std::size_t limit = likeness_.kind == Kind::edits ? likeness_.amount : max_edits_;
  if (longer - shorter <= limit && steps_ < kMaxSteps) {
    const std::size_t edits = distance(name, std::equal_to<char>(), limit);
    if (edits <= limit) return {Kind::edits, edits, distance(name, SameButForCase(), edits)};
  }
  if (likeness_.kind == Kind::edits) return {};
  if (std::equal(name.begin(), name.end(), meant_.begin(), meant_.end(), SameButForCase())) return {Kind::letter_case};
  if (is_tail(name, meant_) || is_tail(meant_, name)) return {Kind::tail, longer - shorter};
  return {};
}

bool DidYouMean::offer(std::string_view name) noexcept {
  if (meant_.empty() || meant_.size() > kMaxLength || ++names_ > kMaxNames) return false;
  if (name.empty() || name.size() > kMaxLength) return true;
  const Likeness found = compare(name);
  if (found < likeness_) {
    likeness_ = found;
    best_ = name;
  }
  return likeness_ > Likeness{Kind::edits, 1, 0};  // nothing is nearer than a name with one change of case
}

std::string count_of(std::size_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

Error no_tensor(const DidYouMean& similar, const std::string& where, std::size_t tensors, std::string_view path) {
  std::string message =
      "no " + base::tensor_named(similar.meant()) + " in " + where + " of " + count_of(tensors, "tensor");
  if (!similar.best().empty()) message += ": is it `" + printable(similar.best()) + "`?";
  return base::make_error(Errc::not_found, std::move(message), path);
}

}  // namespace safetensors::file
