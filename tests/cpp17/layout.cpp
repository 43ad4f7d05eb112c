// The sizes of public types in C++20, for ladder.cpp.
#include "layout.h"

#include <ranges>
#include <span>

static_assert(__cplusplus > 201703L, "this file is compiled as C++20");
static_assert(std::is_convertible_v<Span<int>, std::span<int>> && std::is_convertible_v<std::span<int, 2>, Span<int>> &&
              !std::is_convertible_v<std::span<const int>, Span<int>>);
static_assert(std::ranges::contiguous_range<Span<int>> && std::ranges::borrowed_range<Span<int>>);
static_assert(std::ranges::view<Span<int>>, "an adaptor of a local Span would refer to it");

Span<const std::size_t> sizes_in_cpp20() {
  return kSizes;
}
