// Signals of a process. Only the command handles them: the library changes no handler.
#pragma once

namespace safetensors::os {

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

}  // namespace safetensors::os
