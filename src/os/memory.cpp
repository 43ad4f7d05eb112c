// Memory for results and for containers: large memory is whole pages of the system, small memory comes from operator
// new.
#include "os/memory.h"

#include <algorithm>
#include <cstddef>
#include <new>
#include <string>

#include "base/error.h"
#include "base/exceptions.h"

#if defined(__ELF__)
// A function of the runtime of the address sanitizer. In programs without this runtime, its address is null.
extern "C" __attribute__((weak)) void
__asan_init();  // NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
#endif

namespace safetensors::os {
namespace {

// Returns whether the program runs under the address sanitizer. Then containers use only operator new: pages of the
// system would come back at the same address, and the sanitizer would not see an access to memory that was freed. Asks
// when the program runs, because a program with the sanitizer may use a library that was built without it.
bool under_address_sanitizer() noexcept {
#if defined(__ELF__)
  return &__asan_init != nullptr;
#else
  return false;
#endif
}

class LargeMemory final : public base::MemoryResource {
 public:
  void* allocate(std::size_t size, std::size_t alignment) override {
    if (!maps(size, alignment)) {
      void* const memory = ::operator new(size, alignment_of(size, alignment), std::nothrow);
      if (memory == nullptr) base::raise(std::bad_alloc());
      return memory;
    }
    const Pages pages = map_pages(size);
    if (pages.begin == nullptr) base::raise(std::bad_alloc());
    return pages.begin;
  }
  void deallocate(void* address, std::size_t size, std::size_t alignment) noexcept override {
    if (!maps(size, alignment))
      ::operator delete(address, alignment_of(size, alignment));
    else
      unmap_pages({static_cast<std::byte*>(address), (size + page_size() - 1) / page_size() * page_size()});
  }

 private:
  static bool maps(std::size_t size, std::size_t alignment) noexcept {
    return size >= kHugePage && alignment <= kHugePage && !under_address_sanitizer();
  }
  // Large memory begins at a huge page, also if operator new serves it.
  static std::align_val_t alignment_of(std::size_t size, std::size_t alignment) noexcept {
    return std::align_val_t(size >= kHugePage ? std::max(alignment, std::size_t{kHugePage}) : alignment);
  }
};

}  // namespace

Error no_memory(std::uint64_t size) {
  const char* const reason = fits_in_machine(size) && maps_exhausted()
                                 ? ": the process has as many maps as the system allows (vm.max_map_count)"
                                 : "";
  return base::make_error(Errc::out_of_memory, "cannot allocate " + std::to_string(size) + " bytes" + reason);
}

Result<std::shared_ptr<std::byte>> allocate(std::uint64_t size, std::size_t alignment) noexcept {
  return base::guarded([&]() -> Result<std::shared_ptr<std::byte>> {
    if (size >= kHugePage) {
      const Pages pages = map_pages(size, alignment > page_size());
      if (pages.begin == nullptr) return no_memory(size);
      return std::shared_ptr<std::byte>(pages.begin, [pages](std::byte*) noexcept { unmap_pages(pages); });
    }
    const std::align_val_t aligned{std::max(alignment, alignof(std::max_align_t))};
    auto* const bytes = static_cast<std::byte*>(::operator new(static_cast<std::size_t>(size), aligned));
    return std::shared_ptr<std::byte>(bytes, [aligned](std::byte* p) noexcept { ::operator delete(p, aligned); });
  });
}

base::MemoryResource& large_memory() noexcept {
  // Constructed in place and never destroyed, because static objects may still hold such memory when the program ends.
  alignas(LargeMemory) static std::byte storage[sizeof(LargeMemory)];
  static base::MemoryResource* const resource = ::new (storage) LargeMemory;
  return *resource;
}

}  // namespace safetensors::os
