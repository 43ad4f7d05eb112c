// Standard input, output and error of a process. Only the command uses them: the library has none.
#pragma once

#include <cstddef>
#include <cstdint>

namespace safetensors::os {

// The descriptors.
inline constexpr int kStandardInput = 0;
inline constexpr int kStandardOutput = 1;
inline constexpr int kStandardError = 2;

[[nodiscard]] bool is_terminal(int descriptor) noexcept;
// Returns the width of a terminal in columns. 0: it is unknown.
[[nodiscard]] std::size_t terminal_columns(int descriptor) noexcept;

// If a standard descriptor is closed, opens a file on it, but in the wrong direction. Otherwise, the next file that the
// process opens would get this descriptor. Reading or writing through the descriptor stays an error.
void fill_standard_descriptors() noexcept;

// These return a count of bytes (0 for a read: the end), or -1 and set errno. One system call each.
[[nodiscard]] std::ptrdiff_t read_next(int descriptor, void* bytes, std::size_t size) noexcept;
[[nodiscard]] std::ptrdiff_t write_next(int descriptor, const void* bytes, std::size_t size) noexcept;

// Waits until a read does not block. Returns 1 then, 0 after `milliseconds`, or -1 and sets errno. EINTR: a signal
// came.
[[nodiscard]] int wait_to_read(int descriptor, int milliseconds) noexcept;

// Returns the offset of the next read, in bytes. -1: a pipe, whose bytes have no offsets; or it is closed.
[[nodiscard]] std::int64_t position_of(int descriptor) noexcept;
// Moves the position to the end, and returns it: the size of the file in bytes. Returns -1 and sets errno as above.
[[nodiscard]] std::int64_t move_to_end(int descriptor) noexcept;

}  // namespace safetensors::os
