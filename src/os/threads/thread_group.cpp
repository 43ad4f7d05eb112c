// Starts threads and joins them. A thread that the system refuses is not an error here: most callers do the same work
// with fewer threads.
#include "os/thread_group.h"

#include <cerrno>
#include <functional>
#include <new>
#include <system_error>

#include "base/exceptions.h"

namespace safetensors::os {

int ThreadGroup::start(std::size_t count, const std::function<void()>& work) noexcept {
  const auto start_all = [&] {
    threads_.reserve(threads_.size() + count);
    for (std::size_t i = 0; i < count; ++i) threads_.emplace_back(work);
    return 0;
  };
  return base::caught<std::bad_alloc>(
      [&] {
        return base::caught<std::system_error>(start_all,
                                               [](const std::system_error& error) { return error.code().value(); });
      },
      [](const std::bad_alloc&) { return ENOMEM; });
}

void ThreadGroup::join() noexcept {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace safetensors::os
