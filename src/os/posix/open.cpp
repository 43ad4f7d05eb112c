// Reads at offsets.
#include "os/open.h"

#include <unistd.h>

namespace safetensors::os {

std::ptrdiff_t read_at(int descriptor, void* bytes, std::size_t size, std::uint64_t offset) noexcept {
  return ::pread(descriptor, bytes, size, static_cast<off_t>(offset));
}

}  // namespace safetensors::os
