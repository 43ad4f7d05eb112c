// The name that was probably meant.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace safetensors::api {

// What of several names was probably meant by one: a name with the same ending (or the other way round), else the one
// fewest edits away. The work is bounded whatever the names are.
class SimilarName {
 public:
  explicit SimilarName(std::string_view meant) noexcept;
  // False when no other name needs to be offered.
  [[nodiscard]] bool offer(std::string_view name) noexcept;
  [[nodiscard]] std::string_view meant() const noexcept { return meant_; }
  // One of those that were offered, or empty.
  [[nodiscard]] std::string_view best() const noexcept { return best_; }

 private:
  std::string_view meant_;
  std::string_view best_;
  std::size_t limit_;  // edits
  std::uint64_t steps_ = 0;
};

// "1 tensor", "2 tensors".
[[nodiscard]] std::string counted(std::size_t number, const char* noun);

// Error not_found: "no tensor `MEANT` in WHERE of 2 tensors: is it `BEST`?", without the question if none is near.
[[nodiscard]] Error no_tensor(const SimilarName& similar, const std::string& where, std::size_t tensors,
                              std::string_view path);

}  // namespace safetensors::api
