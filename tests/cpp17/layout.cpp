// The sizes of public types in C++20, for ladder.cpp.
#include "layout.h"

static_assert(__cplusplus > 201703L, "this file is compiled as C++20");

Span<const std::size_t> sizes_in_cpp20() {
  return kSizes;
}
