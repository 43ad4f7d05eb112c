// Replaces operator new, to count the allocations of a program. Only one file of a program may include this header.
#pragma once

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace allocations {

inline std::atomic<std::size_t> live{0};
inline std::atomic<std::size_t> highest{0};
inline std::atomic<std::size_t> calls{0};

// The peak of the allocated bytes and the count of allocations since the constructor.
class Peak {
 public:
  Peak() noexcept : start_(live), calls_(allocations::calls) { highest = start_; }
  // Returns the peak, minus the bytes that were allocated when this object was made.
  [[nodiscard]] std::size_t bytes() const noexcept { return highest - start_; }
  // Returns the number of calls of operator new.
  [[nodiscard]] std::size_t calls() const noexcept { return allocations::calls - calls_; }

 private:
  std::size_t start_;
  std::size_t calls_;
};

inline void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  ++calls;
  const std::size_t now = live += malloc_usable_size(memory);
  if (now > highest) highest = now;
  return memory;
}

inline void* allocate(std::size_t size) {
  return counted(std::malloc(size > 0 ? size : 1));
}

inline void* allocate(std::size_t size, std::align_val_t alignment) {
  const auto align = static_cast<std::size_t>(alignment);
  if (size > ~std::size_t{0} - align) throw std::bad_alloc();
  return counted(std::aligned_alloc(align, (size + align - 1) / align * align));
}

inline void release(void* memory) noexcept {
  if (memory == nullptr) return;
  live -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace allocations

// Replaces every form of the operator. A default form could call the form of a sanitizer, and not the one below.
void* operator new(std::size_t size) {
  return allocations::allocate(size);
}
void* operator new[](std::size_t size) {
  return allocations::allocate(size);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocations::allocate(size, alignment);
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocations::allocate(size, alignment);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return allocations::allocate(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t size, const std::nothrow_t& tag) noexcept {
  return operator new(size, tag);
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  try {
    return allocations::allocate(size, alignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t& tag) noexcept {
  return operator new(size, alignment, tag);
}
void operator delete(void* memory) noexcept {
  allocations::release(memory);
}
void operator delete[](void* memory) noexcept {
  allocations::release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  allocations::release(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  allocations::release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  allocations::release(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  allocations::release(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  allocations::release(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  allocations::release(memory);
}
