// A source of memory for containers and allocators: std::pmr::memory_resource in few lines, because libc++ before 16
// has no <memory_resource>.
#pragma once

#include <cstddef>
#include <new>

namespace safetensors::base {

class MemoryResource {
 public:
  MemoryResource() = default;
  MemoryResource(const MemoryResource&) = delete;
  MemoryResource& operator=(const MemoryResource&) = delete;

  // Returns memory for `size` bytes. alignment: a power of two. Throws std::bad_alloc.
  [[nodiscard]] virtual void* allocate(std::size_t size, std::size_t alignment) = 0;
  // Releases the result of allocate() for the same size and alignment.
  virtual void deallocate(void* address, std::size_t size, std::size_t alignment) noexcept = 0;

 protected:
  ~MemoryResource() = default;  // resources are never destroyed through this class
};

// Returns the resource that calls operator new and operator delete. Thread-safe.
[[nodiscard]] inline MemoryResource* heap() noexcept {
  class Heap final : public MemoryResource {
   public:
    void* allocate(std::size_t size, std::size_t alignment) override {
      return ::operator new(size, std::align_val_t(alignment));
    }
    void deallocate(void* address, std::size_t, std::size_t alignment) noexcept override {
      ::operator delete(address, std::align_val_t(alignment));
    }
  };
  static Heap heap;
  return &heap;
}

}  // namespace safetensors::base
