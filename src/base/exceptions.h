// Exceptions in one place, so that the library also compiles without them (-fno-exceptions). Such a build has one way
// to report that no memory is left: the process ends.
#pragma once

#include <cstdlib>
#include <exception>
#include <new>
#include <string>

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

// Returns body(). If body throws anything, returns otherwise(), which may call raise_again().
template <class Body, class Otherwise>
auto caught_all(Body&& body, Otherwise&& otherwise) -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    return otherwise();
  }
}

// Throws the exception again that is being handled.
[[noreturn]] inline void raise_again() {
  throw;
}

// Returns the text of the exception that is being handled. Throws std::bad_alloc again.
inline std::string exception_text() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "not derived from std::exception";
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
auto caught_all(Body&& body, Otherwise&&) -> decltype(body()) {
  return body();
}

[[noreturn]] inline void raise_again() {
  std::abort();
}

inline std::string exception_text() {
  std::abort();
}

#endif

}  // namespace safetensors::base
