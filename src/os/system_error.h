// Errors with the errno of a system call.
#pragma once

#include <safetensors/error.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace safetensors::os {

// Returns a text such as "no such file or directory", the same in every locale. Returns "system error 123" for an errno
// without a text in the table.
[[nodiscard]] std::string describe_errno(int error_number);

// Returns an error with a message such as "WHAT: no such file or directory".
[[nodiscard]] Error system_error(Errc code, int error_number, std::string_view what, std::string_view path = {});

// Returns read_failed for a read of `size` bytes at `offset`, in bytes from the start of the file.
[[nodiscard]] Error read_error(int error_number, std::size_t size, std::uint64_t offset);

// Sets errno, and returns -1 as a system call does.
inline int failed_with(int error_number) noexcept {
  errno = error_number;
  return -1;
}

// Makes a system call again as long as signals interrupt it. call: returns a negative number after a failure.
template <class Call>
auto retry(const Call& call) noexcept {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Returns whether the file system or the system lacks an operation. On macOS, two numbers say so.
[[nodiscard]] constexpr bool is_unsupported(int error_number) noexcept {
  return error_number == EOPNOTSUPP || error_number == ENOTSUP;
}

// Returns whether a write failed because the file system is full, a quota is used up, or the file would be too large.
[[nodiscard]] bool out_of_space(int error_number) noexcept;

}  // namespace safetensors::os
