// Closes and duplicates descriptors.
#include "os/descriptor.h"

#include <unistd.h>

#include "os/open.h"
#include "os/system.h"

namespace safetensors::os {

void Descriptor::reset() noexcept {
  if (descriptor_ >= 0) ::close(release());
}

// Reads of this library use no position.
int duplicate_for_reading(int descriptor) noexcept {
  return real_system().duplicate(descriptor);
}

}  // namespace safetensors::os
