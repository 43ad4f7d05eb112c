// Runs work on threads of the caller.
#pragma once

#include <safetensors/error.h>
#include <safetensors/executor.h>

#include <cstddef>
#include <functional>

namespace safetensors::plan {

// Lets an executor of the caller run `work`, which must not throw, in up to `count` tasks at the same time. When this
// function returns, no task runs `work`, and a task that begins later does nothing. So at least one task ran `work` to
// its end if there is no error. Errors: invalid_argument (the executor threw, or ran no task), out_of_memory.
[[nodiscard]] Status run_tasks(const Executor& executor, std::size_t count, const std::function<void()>& work) noexcept;

}  // namespace safetensors::plan
