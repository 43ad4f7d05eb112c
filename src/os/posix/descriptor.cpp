// Closes descriptors.
#include "os/descriptor.h"

#include <unistd.h>

namespace safetensors::os {

void Descriptor::reset() noexcept {
  if (descriptor_ >= 0) ::close(release());
}

}  // namespace safetensors::os
