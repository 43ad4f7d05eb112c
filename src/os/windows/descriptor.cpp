// Closes descriptors of the C library. That closes the handle, too.
#include "os/descriptor.h"

#include <io.h>

namespace safetensors::os {

void Descriptor::reset() noexcept {
  if (descriptor_ >= 0) (void)::_close(release());
}

}  // namespace safetensors::os
