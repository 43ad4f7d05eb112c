// The bytes that a Writer has written, as a set of ranges. Finds bytes that are written twice (format/header/layout.cpp
// checks the overlap of tensors in a file). Its memory grows only with the number of gaps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace safetensors::write {

struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

class RangeSet {
 public:
  RangeSet() = default;
  explicit RangeSet(ByteRange range) { add(range); }

  // Adds a range that has no byte in common with the set. May throw std::bad_alloc, and then adds nothing.
  void add(ByteRange range) {
    if (range.begin != range.end) join(written_.emplace(range.begin, range.end).first);
  }

  // Returns the first range of bytes that are in both sets, or nullopt.
  [[nodiscard]] std::optional<ByteRange> first_common(const RangeSet& other) const {
    for (const auto& [begin, end] : other.written_) {
      auto found = written_.upper_bound(begin);
      if (found != written_.begin() && std::prev(found)->second > begin) --found;
      if (found != written_.end() && found->first < end)
        return ByteRange{std::max(found->first, begin), std::min(found->second, end)};
    }
    return std::nullopt;
  }

  // Adds the ranges of a set that has no byte in common with this one. Moves its nodes, so it allocates no memory, and
  // its time depends on the size of `other`.
  void merge(RangeSet&& other) noexcept {
    while (!other.written_.empty()) join(written_.insert(other.written_.extract(other.written_.begin())).position);
  }

  // The first range of [0, size) that is not in the set, or nullopt.
  [[nodiscard]] std::optional<ByteRange> first_gap(std::uint64_t size) const {
    const auto first = written_.begin();
    const std::uint64_t begin = first != written_.end() && first->first == 0 ? first->second : 0;
    if (begin == size) return std::nullopt;
    const auto next = written_.lower_bound(begin);
    return ByteRange{begin, next == written_.end() ? size : next->first};
  }

  // The ranges, in order: begin to end. They neither overlap nor touch.
  [[nodiscard]] const std::map<std::uint64_t, std::uint64_t>& ranges() const noexcept { return written_; }

 private:
  using Ranges = std::map<std::uint64_t, std::uint64_t>;  // begin to end; they neither overlap nor touch

  // Joins a range with the range that ends where it begins, and with the range that begins where it ends.
  void join(Ranges::iterator range) noexcept {
    if (range != written_.begin()) {
      if (const auto before = std::prev(range); before->second == range->first) {
        before->second = range->second;
        written_.erase(range);
        range = before;
      }
    }
    const auto next = std::next(range);
    if (next == written_.end() || next->first != range->second) return;
    range->second = next->second;
    written_.erase(next);
  }

  Ranges written_;
};

}  // namespace safetensors::write
