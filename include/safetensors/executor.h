/// @file
/// Defines Executor: threads of the caller, such as a thread pool, that read a plan.
///
/// Thread-safety: an Executor is a value. Threads may call one at the same time if its function allows that.
#pragma once

#include <safetensors/callback.h>

#include <cstddef>

namespace safetensors {
inline namespace v0 {

/// A task of an Executor. `index` is the index of the task, below the number of tasks. A task does not throw.
using ExecutorTask = Callback<void(std::size_t index)>;

/// Runs tasks on threads of the caller: executor(count, task) calls task(0), task(1), ..., task(count - 1), and returns
/// when all of these calls have returned. ReadOptions::executor takes one.
///
/// @code
/// options.executor = [&pool](std::size_t count, const safetensors::ExecutorTask& task) {
///   pool.parallel_for(count, task);
/// };
/// @endcode
///
/// The tasks share the work, and no task waits for another one. So the threads may run the tasks in any order, one
/// after the other, or in the thread that called the executor. Tasks that begin when the work is done return at once.
/// One task alone does all the work.
///
/// A task waits for its reads, for a Source, and for callbacks. It needs up to 128 KiB of stack. The executor must be
/// able to run a task while its caller waits: if a thread of a pool calls execute(), then its pool needs another
/// thread, or must run tasks in the waiting thread.
///
/// `task` is valid until the executor returns. A copy of it stays valid, and does nothing after that. If the executor
/// returns early, the library waits for the tasks that run, and ignores the tasks that begin later. An exception of the
/// executor ends the call with an error, and so does an executor that runs no task at all.
using Executor = Callback<void(std::size_t count, const ExecutorTask& task)>;

}  // namespace v0
}  // namespace safetensors
