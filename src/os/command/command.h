// What only the command needs from the system: its arguments, its standard streams, signals, and a file without a name.
// The library has no standard streams, and changes no handler of a signal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "os/descriptor.h"

namespace safetensors::os {

// Returns the arguments without the name of the program. argc, argv: those of main(). Windows gives main() arguments in
// an old encoding, so there the function asks the system for them and returns UTF-8. Throws std::bad_alloc.
[[nodiscard]] std::vector<std::string> process_arguments(int argc, char** argv);

// From now on, a write to a closed pipe or beyond the limit of the file size returns an error. Otherwise a signal would
// kill the process and leave a partial file.
void ignore_write_signals() noexcept;

// Ends the process by the signal of a write to a closed pipe.
void end_by_broken_pipe() noexcept;

// While a NotedSignals exists, the signals that end a process (interrupt, terminate, hang-up) are only noted. The
// destructor then ends the process by the signal. Signals that were ignored before stay ignored. Only one may exist at
// a time, on one thread.
class NotedSignals {
 public:
  NotedSignals() noexcept;
  NotedSignals(const NotedSignals&) = delete;
  NotedSignals& operator=(const NotedSignals&) = delete;
  ~NotedSignals();

  // Returns true after one of the signals came.
  [[nodiscard]] static bool came() noexcept;
};

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

// Returns whether reads can begin at any offset. False: a pipe, or the descriptor is closed.
[[nodiscard]] bool has_offsets(int descriptor) noexcept;

// Makes a file for reading and writing in a folder. It is gone when its descriptor is closed, or the process ends. If
// that fails, the descriptor is invalid, and errno is the reason. Throws std::bad_alloc.
[[nodiscard]] Descriptor make_unnamed_file(const std::string& folder);

}  // namespace safetensors::os
