// The boundary where running out of memory stops being an exception.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <new>
#include <utility>

namespace safetensors::io {

// Short enough to need no allocation itself.
[[nodiscard]] inline Error out_of_memory() noexcept {
  Error error;
  error.code = Errc::out_of_memory;
  error.message = "out of memory";
  return error;
}

// Calls function; std::bad_alloc becomes Errc::out_of_memory. function returns a Status or a Result.
template <class Function>
[[nodiscard]] auto guarded(Function&& function) noexcept -> decltype(function()) {
  try {
    return std::forward<Function>(function)();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

}  // namespace safetensors::io
