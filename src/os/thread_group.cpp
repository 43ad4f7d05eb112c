// Starts threads and joins them. A thread that the system refuses is not an error here: most callers do the same work
// with fewer threads.
#include "os/thread_group.h"

#include <cerrno>
#include <new>
#include <system_error>

namespace safetensors::os {

int ThreadGroup::start(std::size_t count, const std::function<void()>& work) noexcept {
  try {
    threads_.reserve(threads_.size() + count);
    for (std::size_t i = 0; i < count; ++i) threads_.emplace_back(work);
    return 0;
  } catch (const std::system_error& error) {
    return error.code().value();
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

void ThreadGroup::join() noexcept {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace safetensors::os
