// Ranks names by their likeness to the name that the caller gave: by edits, then by case, then by a common tail.
// Hyyro's algorithm (Nordic J. Computing 10, 2003), in the version for several words, counts the edits. It keeps a
// column of the usual table in bit vectors, so one character of a name costs a few operations per 64 characters of the
// given name.
#include "file/did_you_mean.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "base/printable.h"

namespace safetensors::file {
namespace {

constexpr std::uint64_t kMaxSteps = 20'000'000;  // of counting edits, per suggestion
constexpr std::uint64_t kMaxNames = 2'000'000;   // further names are ignored
constexpr std::size_t kMaxEdits = 8;

char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

char upper(char c) noexcept {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - ('a' - 'A')) : c;
}

bool same_but_for_case(char a, char b) noexcept {
  return lower(a) == lower(b);
}

std::size_t index_of(char c) noexcept {
  return static_cast<unsigned char>(c);
}

// The carry from 64 rows of a column to the next 64 rows of the same column.
struct Carry {
  int difference = 1;  // of the last row: its value minus the value in the column before
  bool swap = false;   // the last row allows a swap that ends in the first of the next rows
};

// 64 rows of one column of the table.
struct Column {
  std::uint64_t up = ~std::uint64_t{0};  // the row is one more than the row above
  std::uint64_t down = 0;                // the row is one less than the row above
  std::uint64_t diagonal = 0;            // the row equals the row above of the column before
  std::uint64_t equal = 0;               // the characters of these rows equal the character of the column

  // Computes the next column, for a character that equals the characters of the rows `now`. carry: of the rows above.
  // last: a mask with the bit of the row whose carry is returned.
  Carry advance(std::uint64_t now, Carry carry, std::uint64_t last) noexcept {
    // A swap takes the place of an edit in the row above of the column before. Without such an edit (`diagonal`), it
    // does not help.
    const std::uint64_t first = ~diagonal & now;
    const std::uint64_t swaps = (first << 1 | (carry.swap ? 1 : 0)) & equal;
    equal = now;
    const std::uint64_t matches = now | (carry.difference < 0 ? 1 : 0);
    diagonal = (((matches & up) + up) ^ up) | matches | down | swaps;
    std::uint64_t more = down | ~(diagonal | up);
    std::uint64_t less = up & diagonal;
    const Carry next = {(more & last) != 0 ? 1 : (less & last) != 0 ? -1 : 0, (first & last) != 0};
    more = more << 1 | (carry.difference > 0 ? 1 : 0);
    less = less << 1 | (carry.difference < 0 ? 1 : 0);
    up = less | ~(diagonal | more);
    down = more & diagonal;
    return next;
  }
};

bool is_tail(std::string_view whole, std::string_view tail) {
  return whole.size() > tail.size() && whole.ends_with(tail) && whole[whole.size() - tail.size() - 1] == '.';
}

}  // namespace

DidYouMean::DidYouMean(std::string_view meant) noexcept
    : meant_(meant), max_edits_(std::min(kMaxEdits, std::max<std::size_t>(meant.size() / 4, 1))) {
  for (std::size_t i = 0; i < std::min(meant.size(), kMaxLength); ++i) {
    const std::uint64_t row = std::uint64_t{1} << i % 64;
    exact_[index_of(meant[i])][i / 64] |= row;
    for (const char c : {lower(meant[i]), upper(meant[i])}) any_case_[index_of(c)][i / 64] |= row;
  }
}

// Number of bytes to insert, delete or change, and of neighbours to swap, to turn `name` into the given name. No byte
// changes after a swap. If this number exceeds limit, the result is only known to be limit + 1 or more.
std::size_t DidYouMean::distance(std::string_view name, const Rows& rows, std::size_t limit) noexcept {
  const std::size_t blocks = (meant_.size() + 63) / 64;
  const std::uint64_t last = std::uint64_t{1} << (meant_.size() - 1) % 64;
  std::array<Column, kBlocks> column;
  std::size_t edits = meant_.size();
  for (std::size_t i = 0; i < name.size(); ++i) {
    Carry carry;
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::uint64_t end = block + 1 == blocks ? last : std::uint64_t{1} << 63;
      carry = column[block].advance(rows[index_of(name[i])][block], carry, end);
    }
    edits = static_cast<std::size_t>(static_cast<std::ptrdiff_t>(edits) + carry.difference);
    steps_ += blocks;
    if (edits > limit + (name.size() - i - 1))
      return limit + 1;  // the remaining characters cannot lower edits to the limit
  }
  return edits;
}

DidYouMean::Likeness DidYouMean::compare(std::string_view name) noexcept {
  const auto [shorter, longer] = std::minmax({name.size(), meant_.size()});
  const std::size_t limit = likeness_.kind == Kind::edits ? likeness_.amount : max_edits_;
  if (longer - shorter <= limit && steps_ < kMaxSteps) {
    const std::size_t edits = distance(name, exact_, limit);
    if (edits <= limit) return {Kind::edits, edits, distance(name, any_case_, edits)};
  }
  if (likeness_.kind == Kind::edits) return {};
  if (std::equal(name.begin(), name.end(), meant_.begin(), meant_.end(), same_but_for_case)) return {Kind::letter_case};
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
