// Ranks names by their likeness to the name that the caller gave: by edits, then by a common tail.
#include "file/did_you_mean.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "base/printable.h"

namespace safetensors::file {
namespace {

constexpr std::uint64_t kMaxSteps = 100'000'000;  // cells of the tables of edits, per suggestion
constexpr std::uint64_t kMaxNames = 2'000'000;    // further names are ignored
constexpr std::size_t kMaxEdits = 8;

char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

bool same(char a, char b) noexcept {
  return lower(a) == lower(b);
}

bool is_tail(std::string_view whole, std::string_view tail) {
  return whole.size() > tail.size() && whole.ends_with(tail) && whole[whole.size() - tail.size() - 1] == '.';
}

}  // namespace

DidYouMean::DidYouMean(std::string_view meant) noexcept
    : meant_(meant), max_edits_(std::min(kMaxEdits, std::max<std::size_t>(meant.size() / 4, 1))) {}

// Number of bytes to insert, delete or change, and of neighbours to swap, to turn `name` into the given name. No byte
// changes after a swap. If this number exceeds limit, the result is limit + 1. Equal ends of the names need no edit.
std::size_t DidYouMean::distance(std::string_view name, std::size_t limit) noexcept {
  std::string_view meant = meant_;
  for (; !name.empty() && !meant.empty() && same(name.back(), meant.back()); name.remove_suffix(1))
    meant.remove_suffix(1);
  for (; !name.empty() && !meant.empty() && same(name.front(), meant.front()); name.remove_prefix(1))
    meant.remove_prefix(1);
  std::array<std::array<std::uint8_t, kMaxLength + 1>, 3> rows{};  // rows i, i - 1 and i - 2
  for (std::size_t j = 0; j <= meant.size(); ++j) rows[0][j] = static_cast<std::uint8_t>(j);
  for (std::size_t i = 1; i <= name.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& above = rows[(i - 1) % 3];
    std::size_t least = i;
    row[0] = static_cast<std::uint8_t>(i);
    for (std::size_t j = 1; j <= meant.size(); ++j) {
      std::size_t edits = above[j - 1] + (same(name[i - 1], meant[j - 1]) ? 0U : 1U);
      edits = std::min(edits, std::size_t{1} + std::min(above[j], row[j - 1]));
      if (i > 1 && j > 1 && same(name[i - 1], meant[j - 2]) && same(name[i - 2], meant[j - 1]))
        edits = std::min(edits, std::size_t{1} + rows[(i - 2) % 3][j - 2]);
      row[j] = static_cast<std::uint8_t>(edits);
      least = std::min(least, edits);
    }
    steps_ += meant.size() + 1;
    if (least > limit) return limit + 1;
  }
  return std::min<std::size_t>(rows[name.size() % 3][meant.size()], limit + 1);
}

bool DidYouMean::offer(std::string_view name) noexcept {
  if (meant_.empty() || meant_.size() > kMaxLength || ++names_ > kMaxNames) return false;
  if (name.empty() || name.size() > kMaxLength) return true;
  const auto [shorter, longer] = std::minmax({name.size(), meant_.size()});
  if (longer - shorter <= max_edits_ && steps_ < kMaxSteps) {
    const std::size_t edits = distance(name, max_edits_);
    if (edits <= max_edits_) {
      best_ = name;
      max_edits_ = edits == 0 ? 0 : edits - 1;
      max_apart_ = 0;  // no tail is better
      return edits != 0;
    }
  }
  if (longer - shorter < max_apart_ && (is_tail(name, meant_) || is_tail(meant_, name))) {
    best_ = name;
    max_apart_ = longer - shorter;
  }
  return true;
}

std::string count_of(std::size_t count, const char* noun) {
  return base::concat({count, " ", noun, (count == 1 ? "" : "s")});
}

Error no_tensor(const DidYouMean& similar, const std::string& where, std::size_t tensors, std::string_view path) {
  std::string message =
      base::concat({"no ", base::tensor_named(similar.meant()), " in ", where, " of ", count_of(tensors, "tensor")});
  if (!similar.best().empty()) message += ": is it `" + printable(similar.best()) + "`?";
  return base::make_error(Errc::not_found, std::move(message), path);
}

}  // namespace safetensors::file
