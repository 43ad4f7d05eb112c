#include "api/similar_name.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "api/file_image.h"
#include "io/system_error.h"

namespace safetensors::api {
namespace {

constexpr std::size_t kLongest = 128;             // longer names are not compared
constexpr std::uint64_t kMostSteps = 20'000'000;  // of comparing, for one question
constexpr std::size_t kMostEdits = 8;

// Insertions, deletions and changes of bytes that turn a into b, or more than limit. Looks only at the band of the
// table where fewer are possible; adds to steps what it looked at.
std::size_t distance(std::string_view a, std::string_view b, std::size_t limit, std::uint64_t& steps) {
  std::array<std::size_t, kLongest + 1> row{};
  const std::size_t far = limit + 1;
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = std::min(j, far);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    const std::size_t first = i > limit ? i - limit : 1;
    const std::size_t last = std::min(b.size(), i + limit);
    steps += last - std::min(first, last) + 2;
    std::size_t diagonal = row[first - 1];
    row[first - 1] = first == 1 ? std::min(i, far) : far;
    std::size_t best = row[first - 1];
    for (std::size_t j = first; j <= last; ++j) {
      const std::size_t above = j < i + limit ? row[j] : far;
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, above + 1, row[j - 1] + 1, far});
      best = std::min(best, row[j]);
    }
    if (best >= far) return far;
  }
  return row[b.size()];
}

bool is_tail(std::string_view whole, std::string_view tail) {
  return whole.size() > tail.size() && whole.ends_with(tail) && whole[whole.size() - tail.size() - 1] == '.';
}

}  // namespace

SimilarName::SimilarName(std::string_view meant) noexcept
    : meant_(meant), limit_(std::min(kMostEdits, std::max<std::size_t>(meant.size() / 4, 1))) {}

bool SimilarName::offer(std::string_view name) noexcept {
  if (meant_.empty() || meant_.size() > kLongest) return false;
  if (steps_++ > kMostSteps) return false;
  if (name.empty() || name.size() > kLongest) return true;
  if (is_tail(name, meant_) || is_tail(meant_, name)) {
    best_ = name;
    return false;
  }
  const std::size_t lengths = name.size() > meant_.size() ? name.size() - meant_.size() : meant_.size() - name.size();
  if (limit_ == 0 || lengths > limit_) return true;
  const std::size_t edits = distance(meant_, name, limit_, steps_);
  if (edits > limit_) return true;
  best_ = name;
  limit_ = edits - 1;
  return true;
}

std::string counted(std::size_t number, const char* noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

Error no_tensor(const SimilarName& similar, const std::string& where, std::size_t tensors, std::string_view path) {
  std::string message = "no " + tensor_named(similar.meant()) + " in " + where + " of " + counted(tensors, "tensor");
  if (!similar.best().empty()) message += ": is it `" + printable(similar.best()) + "`?";
  return io::plain_error(Errc::not_found, std::move(message), path);
}

}  // namespace safetensors::api
