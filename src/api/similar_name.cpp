#include "api/similar_name.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

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

std::string_view similar_name(const Header& header, std::string_view name) noexcept {
  if (name.empty() || name.size() > kLongest) return {};
  std::string_view best;
  std::size_t limit = std::min(kMostEdits, std::max<std::size_t>(name.size() / 4, 1));
  std::uint64_t steps = 0;
  for (const TensorInfo& tensor : header.tensors()) {
    const std::string_view other = tensor.name;
    if (steps++ > kMostSteps) break;
    if (other.empty() || other.size() > kLongest) continue;
    if (is_tail(other, name) || is_tail(name, other)) return other;
    const std::size_t lengths = other.size() > name.size() ? other.size() - name.size() : name.size() - other.size();
    if (limit == 0 || lengths > limit) continue;
    const std::size_t edits = distance(name, other, limit, steps);
    if (edits > limit) continue;
    best = other;
    limit = edits - 1;
  }
  return best;
}

}  // namespace safetensors::api
