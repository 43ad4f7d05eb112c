// The name that was probably meant.
#pragma once

#include <safetensors/error.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace safetensors::file {

// Which of several names was probably meant by one: the name fewest edits away, of these the one that differs most in
// case only; else one that differs in case only; else one with the same ending (or the other way round), the nearest in
// length. Of equals the first. The work is bounded whatever the names are.
class DidYouMean {
 public:
  explicit DidYouMean(std::string_view meant) noexcept;
  // False when no other name needs to be offered.
  [[nodiscard]] bool offer(std::string_view name) noexcept;
  [[nodiscard]] std::string_view meant() const noexcept { return meant_; }
  // One of those that were offered, or empty.
  [[nodiscard]] std::string_view best() const noexcept { return best_; }

 private:
  enum class Kind : std::uint8_t { edits, letter_case, tail, none };  // the nearest first
  struct Likeness {
    Kind kind = Kind::none;
    std::size_t amount = 0;      // edits; of a tail, the bytes before it
    std::size_t other_case = 0;  // edits that are more than a change of case
    friend auto operator<=>(const Likeness&, const Likeness&) = default;
  };
  static constexpr std::size_t kBlocks = 2;
  static constexpr std::size_t kLongest = 64 * kBlocks;              // longer names are not compared
  using Rows = std::array<std::array<std::uint64_t, kBlocks>, 256>;  // for each byte, where it is in meant_

  Likeness compare(std::string_view name) noexcept;
  std::size_t distance(std::string_view name, const Rows& rows, std::size_t limit) noexcept;

  std::string_view meant_;
  Rows exact_{};
  Rows any_case_{};
  std::string_view best_;
  Likeness likeness_;  // of best_
  std::size_t most_edits_;
  std::uint64_t steps_ = 0;
  std::uint64_t names_ = 0;
};

// "1 tensor", "2 tensors".
[[nodiscard]] std::string counted(std::size_t number, const char* noun);

// Error not_found: "no tensor `MEANT` in WHERE of 2 tensors: is it `BEST`?", without the question if none is near.
[[nodiscard]] Error no_tensor(const DidYouMean& similar, const std::string& where, std::size_t tensors,
                              std::string_view path);

}  // namespace safetensors::file
