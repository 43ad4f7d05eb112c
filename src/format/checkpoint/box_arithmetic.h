// Ends and intersections of boxes. All boxes of a call have the same rank and are inside of one tensor.
#pragma once

#include <safetensors/reshard.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace safetensors::format {

// The first index after those of the box.
[[nodiscard]] std::uint64_t end_of(const Box& box, std::size_t dim) noexcept;

// Returns true if the boxes, which are not empty, have an index in common.
[[nodiscard]] bool overlap(const Box& a, const Box& b) noexcept;

// Returns the box that both have, or nullopt if it is empty.
[[nodiscard]] std::optional<Box> intersection(const Box& a, const Box& b);

// Returns the number of elements that both have.
[[nodiscard]] std::uint64_t common_numel(const Box& a, const Box& b) noexcept;

}  // namespace safetensors::format
