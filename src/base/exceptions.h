// Exceptions in one place, so that the library also compiles without them (-fno-exceptions). Such a build has one way
// to report that no memory is left: the process ends.
#pragma once

#include <cstdlib>
#include <exception>
#include <new>
#include <utility>

namespace safetensors::base {

#if defined(__cpp_exceptions)

inline constexpr bool kExceptions = true;

// Throws the value. Without exceptions, it ends the process.
template <class Value>
[[noreturn]] void raise(const Value& value) {
  throw value;
}

// Returns body(). If body throws an Exception, returns otherwise() with it.
template <class Exception, class Body, class Otherwise>
auto caught(Body&& body, Otherwise&& otherwise) -> decltype(body()) {
  try {
    return body();
  } catch (const Exception& exception) {
    return otherwise(exception);
  }
}

// Returns body(). If body throws, returns otherwise(text) with the text of the exception.
template <class Body, class Otherwise>
auto caught_text(Body&& body, Otherwise&& otherwise) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& exception) {
    return otherwise(exception.what());
  } catch (...) {
    return otherwise("not derived from std::exception");
  }
}

#else

inline constexpr bool kExceptions = false;

template <class Value>
[[noreturn]] void raise(const Value&) {
  std::abort();
}

template <class Exception, class Body, class Otherwise>
auto caught(Body&& body, Otherwise&&) -> decltype(body()) {
  return body();
}

template <class Body, class Otherwise>
auto caught_text(Body&& body, Otherwise&&) -> decltype(body()) {
  return body();
}

#endif

// Returns body(). If body throws anything, returns otherwise().
template <class Body, class Otherwise>
auto caught_all(Body&& body, Otherwise&& otherwise) noexcept -> decltype(body()) {
  return caught_text(std::forward<Body>(body), [&](const char*) { return otherwise(); });
}

}  // namespace safetensors::base
