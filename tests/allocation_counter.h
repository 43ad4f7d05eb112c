// Counts what is allocated with new by this program. To be included by one file of a program: it replaces operator new.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace allocations {

inline std::atomic<std::size_t> live{0};
inline std::atomic<std::size_t> highest{0};

// The most that was allocated at once since this object was made, beyond what was allocated then.
class Peak {
 public:
  Peak() noexcept : start_(live) { highest = start_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return highest - start_; }

 private:
  std::size_t start_;
};

// Sizes are kept in front of the memory: sized delete is not always called.
inline void* allocate(std::size_t size, std::size_t alignment) {
  const std::size_t front = alignment < 16 ? 16 : alignment;
  if (size > ~std::size_t{0} - 2 * front) throw std::bad_alloc();
  void* block = std::aligned_alloc(front, (size + 2 * front - 1) / front * front);
  if (block == nullptr) throw std::bad_alloc();
  char* memory = static_cast<char*>(block) + front;
  reinterpret_cast<std::size_t*>(memory)[-1] = size;
  const std::size_t now = live += size;
  if (now > highest) highest = now;
  return memory;
}

inline void release(void* memory, std::size_t alignment) noexcept {
  if (memory == nullptr) return;
  live -= static_cast<std::size_t*>(memory)[-1];
  std::free(static_cast<char*>(memory) - (alignment < 16 ? 16 : alignment));
}

}  // namespace allocations

void* operator new(std::size_t size) {
  return allocations::allocate(size, 16);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocations::allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  allocations::release(memory, 16);
}
void operator delete(void* memory, std::size_t) noexcept {
  allocations::release(memory, 16);
}
void operator delete(void* memory, std::align_val_t alignment) noexcept {
  allocations::release(memory, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory, std::size_t, std::align_val_t alignment) noexcept {
  allocations::release(memory, static_cast<std::size_t>(alignment));
}
