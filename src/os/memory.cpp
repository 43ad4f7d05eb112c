// Memory for results and for containers: large memory is whole pages of the system, small memory comes from operator
// new.
#include "os/memory.h"

#include <algorithm>
#include <cstddef>
#include <new>
#include <string>

#include "base/error.h"
#include "base/exceptions.h"

namespace safetensors::os {
namespace {

class LargeMemory final : public base::MemoryResource {
 public:
  void* allocate(std::size_t size, std::size_t alignment) override {
    if (size < kHugePage || alignment > kHugePage) return ::operator new(size, std::align_val_t(alignment));
    const Pages pages = map_pages(size);
    if (pages.begin == nullptr) base::raise(std::bad_alloc());
    return pages.begin;
  }
  void deallocate(void* address, std::size_t size, std::size_t alignment) noexcept override {
    if (size < kHugePage || alignment > kHugePage)
      ::operator delete(address, std::align_val_t(alignment));
    else
      unmap_pages({static_cast<std::byte*>(address), (size + page_size() - 1) / page_size() * page_size()});
  }
};

}  // namespace

Result<std::shared_ptr<std::byte>> allocate(std::uint64_t size, std::size_t alignment) noexcept {
  return base::guarded([&]() -> Result<std::shared_ptr<std::byte>> {
    if (size >= kHugePage) {
      const Pages pages = map_pages(size);
      if (pages.begin == nullptr)
        return base::make_error(Errc::out_of_memory, "cannot allocate " + std::to_string(size) + " bytes");
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
