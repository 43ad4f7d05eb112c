// The name that was probably meant.
#pragma once

#include <safetensors/header.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace safetensors::api {

// What of several names was probably meant by one: a name with the same ending, else the one fewest edits away. The
// work is bounded whatever the names are.
class SimilarName {
 public:
  explicit SimilarName(std::string_view meant) noexcept;
  // False when no other name needs to be offered.
  [[nodiscard]] bool offer(std::string_view name) noexcept;
  // One of those that were offered, or empty.
  [[nodiscard]] std::string_view best() const noexcept { return best_; }

 private:
  std::string_view meant_;
  std::string_view best_;
  std::size_t limit_;  // edits
  std::uint64_t steps_ = 0;
};

// A name with the same ending (or the other way round), else the one fewest edits away; empty when none is near.
// The work is bounded whatever the names are; the result lives as long as the header.
[[nodiscard]] std::string_view similar_name(const Header& header, std::string_view name) noexcept;

}  // namespace safetensors::api
