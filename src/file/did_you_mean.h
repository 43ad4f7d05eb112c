// Suggests the name that a caller probably meant.
#pragma once

#include <safetensors/error.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace safetensors::file {

// Chooses the name that is most like the given name:
//   1. the name with the fewest edits; among equals, the one whose edits are mostly changes of case. A swap of two
//      neighbours is one edit;
//   2. else a name that differs in case only;
//   3. else a name that ends with the given name, or the other way round, and is nearest in length.
// The first of equally good names wins. The amount of work is limited, whatever the names are.
class DidYouMean {
 public:
  explicit DidYouMean(std::string_view meant) noexcept;
  // Returns false if no further name needs to be offered.
  [[nodiscard]] bool offer(std::string_view name) noexcept;
  [[nodiscard]] std::string_view meant() const noexcept { return meant_; }
  // One of the offered names, or empty.
  [[nodiscard]] std::string_view best() const noexcept { return best_; }

 private:
  enum class Kind : std::uint8_t { edits, letter_case, tail, none };  // most alike first
  struct Likeness {
    Kind kind = Kind::none;
    std::size_t amount = 0;      // number of edits; for a tail, number of bytes before the tail
    std::size_t other_case = 0;  // edits that do more than change the case
    friend auto operator<=>(const Likeness&, const Likeness&) = default;
  };
  static constexpr std::size_t kMaxLength = 128;  // longer names are not compared

  Likeness compare(std::string_view name) noexcept;
  template <class Same>
  std::size_t distance(std::string_view name, Same same, std::size_t limit) noexcept;

  std::string_view meant_;
  std::string_view best_;
  Likeness likeness_;  // of best_
  std::size_t max_edits_;
  std::uint64_t steps_ = 0;
  std::uint64_t names_ = 0;
};

// "1 tensor", "2 tensors".
[[nodiscard]] std::string count_of(std::size_t count, const char* noun);

// Error not_found: "no tensor `MEANT` in WHERE of 2 tensors: is it `BEST`?", without the question if no name is alike.
[[nodiscard]] Error no_tensor(const DidYouMean& similar, const std::string& where, std::size_t tensors,
                              std::string_view path);

}  // namespace safetensors::file
