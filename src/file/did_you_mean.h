// Suggests the name that a caller probably meant.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace safetensors::file {

// Chooses the name that is most like the given name:
//   1. the name with the fewest edits, whatever the case of its letters. A swap of two neighbours is one edit;
//   2. else a name that ends with the given name, or the other way round, and is nearest in length.
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
  static constexpr std::size_t kMaxLength = 128;  // longer names are not compared

  std::size_t distance(std::string_view name, std::size_t limit) noexcept;

  std::string_view meant_;
  std::string_view best_;
  std::size_t max_edits_;               // of a better name
  std::size_t max_apart_ = kMaxLength;  // a better name with a common tail is nearer in length
  std::uint64_t steps_ = 0;
  std::uint64_t names_ = 0;
};

// "1 tensor", "2 tensors".
[[nodiscard]] std::string count_of(std::size_t count, const char* noun);

// Error not_found: "no tensor `MEANT` in WHERE of 2 tensors: is it `BEST`?", without the question if no name is alike.
[[nodiscard]] Error no_tensor(const DidYouMean& similar, const std::string& where, std::size_t tensors,
                              std::string_view path);

}  // namespace safetensors::file
