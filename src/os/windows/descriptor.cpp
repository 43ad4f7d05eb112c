// Closes descriptors of the C library. That closes the handle, too.
#include "os/descriptor.h"

#include "os/windows/native.h"

namespace safetensors::os {

void Descriptor::reset() noexcept {
  if (descriptor_ >= 0) (void)windows::close_descriptor(release());
}

}  // namespace safetensors::os
