// The reader alone opens no driver, so a program that uses it needs no dynamic linker. Destinations on devices are an
// error.
#include <memory>

#include "base/error.h"
#include "device/cuda.h"

namespace safetensors::device {

Result<std::shared_ptr<const Cuda>> Cuda::load(const char*) noexcept {
  return base::make_error(Errc::unsupported,
                          "safetensors::reader has no driver for devices (link safetensors::safetensors instead)");
}

}  // namespace safetensors::device
