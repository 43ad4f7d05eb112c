// Orders tensors for alignment.
//
// A tensor begins at a multiple of the alignment if the sizes before it have a sum that is a multiple. So tensors whose
// size is a multiple come first. The others are put into groups whose sizes have such a sum, and only the first tensor
// of a group is aligned. So many small groups are best: first pairs, then groups that a greedy search finds. To find
// the best groups is a hard problem (subset sum). Pairs are always right, and real files have few different remainders.
#include "format/header/aligned_order.h"

#include <algorithm>
#include <set>

namespace safetensors::format {
namespace {

// The search looks at this many remainders per tensor, so its time is linear in the number of tensors.
constexpr std::size_t kMaxTried = 256;

class Groups {
 public:
  Groups(std::span<const std::uint64_t> sizes, std::uint32_t alignment) : alignment_(alignment), waiting_(alignment) {
    order_.reserve(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto remainder = static_cast<std::uint32_t>(sizes[i] % alignment);
      if (remainder == 0) {
        order_.push_back(i);
      } else {
        waiting_[remainder].indexes.push_back(i);
        present_.insert(remainder);
      }
    }
  }

  std::vector<std::size_t> order() && {
    add_pairs();
    while (!present_.empty()) add_group();
    return std::move(order_);
  }

 private:
  // The indexes with one remainder that are in no group yet.
  struct Queue {
    std::vector<std::size_t> indexes;
    std::size_t taken = 0;

    [[nodiscard]] std::size_t count() const { return indexes.size() - taken; }
  };

  void take(std::uint32_t remainder) {
    Queue& queue = waiting_[remainder];
    group_.push_back(queue.indexes[queue.taken++]);
    if (queue.count() == 0) present_.erase(remainder);
    sum_ = (sum_ + remainder) % alignment_;
  }

  void finish_group() {
    std::ranges::sort(group_);
    order_.insert(order_.end(), group_.begin(), group_.end());
    group_.clear();
    sum_ = 0;
  }

  // Returns whether an index with this remainder is left after an index with the remainder `before` is taken. before: 0
  // if none is taken.
  [[nodiscard]] bool has(std::uint32_t remainder, std::uint32_t before = 0) const {
    return waiting_[remainder].count() > (remainder == before ? 1U : 0U);
  }

  void add_pairs() {
    const std::vector<std::uint32_t> all(present_.begin(), present_.end());
    for (const std::uint32_t remainder : all) {
      const std::uint32_t other = alignment_ - remainder;
      while (has(remainder) && has(other, remainder)) {
        take(remainder);
        take(other);
        finish_group();
      }
    }
  }

  // Ends when the sum is a multiple, or when nothing is left.
  void add_group() {
    do {
      take(next());
    } while (sum_ != 0 && !present_.empty());
    finish_group();
  }

  // Returns the remainder that ends the group, or else one after which another one can end it, or else the most
  // frequent one.
  [[nodiscard]] std::uint32_t next() const {
    if (sum_ != 0 && has(alignment_ - sum_)) return alignment_ - sum_;
    std::uint32_t most = *present_.begin();
    std::size_t tried = 0;
    for (const std::uint32_t remainder : present_) {
      if (++tried > kMaxTried) break;
      const std::uint32_t rest = (2 * alignment_ - sum_ - remainder) % alignment_;
      if (rest != 0 && has(rest, remainder)) return remainder;
      if (waiting_[remainder].count() > waiting_[most].count()) most = remainder;
    }
    return most;
  }

  const std::uint32_t alignment_;
  std::vector<Queue> waiting_;       // by remainder
  std::set<std::uint32_t> present_;  // remainders that have indexes
  std::vector<std::size_t> order_;
  std::vector<std::size_t> group_;
  std::uint32_t sum_ = 0;  // of the group, modulo the alignment
};

}  // namespace

std::vector<std::size_t> aligned_order(std::span<const std::uint64_t> sizes, std::uint32_t alignment) {
  return Groups(sizes, alignment).order();
}

}  // namespace safetensors::format
