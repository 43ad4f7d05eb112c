// Executes a plan with a group of threads that take jobs in the order of the files.
#pragma once

#include <safetensors/error.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "plan/execution_state.h"
#include "plan/jobs.h"

namespace safetensors::plan {

// The calling thread and helpers read all items of a run. If several jobs fail,
// the error of the first of these jobs is the result, so that the same files give the same error every time. If the
// caller cancels, that is the result.
class Execution {
 public:
  // run_bytes: as Budget::run_bytes().
  Execution(ExecutionState& run, std::uint64_t run_bytes);

  // The calling thread runs `prepare` while the other threads already read. If `prepare` fails, reading stops, and its
  // error is the result.
  [[nodiscard]] Status execute(const std::function<Status()>& prepare);

 private:
  static constexpr std::size_t kBeforeJobs = 0;  // errors of `prepare` and a cancellation come before all jobs

  // Consecutive jobs.
  struct Run {
    static constexpr std::size_t kMaxJobs = 64;
    std::array<Job, kMaxJobs> jobs;
    std::size_t count = 0;
    std::size_t first = 0;  // index of the first job
  };

  void read_in_threads(const std::function<Status()>& prepare) noexcept;
  void work() noexcept;
  bool take(Run& taken) noexcept;
  [[nodiscard]] std::uint64_t next_run_bytes() const noexcept;
  bool is_wanted(std::size_t job_index) noexcept;
  void fail(std::size_t job_index, Error error) noexcept;

  ExecutionState& run_;
  const std::uint64_t run_bytes_;
  const std::thread::id caller_ = std::this_thread::get_id();
  std::mutex mutex_;  // guards the members below
  Jobs jobs_;
  std::size_t next_ = kBeforeJobs;
  std::uint64_t bytes_left_ = 0;  // of jobs that no thread has taken
  bool failed_ = false;
  std::size_t failed_job_ = 0;
  Error error_;
};

}  // namespace safetensors::plan
