// Calls the CUDA driver, and names its errors.
//
// It uses the driver API and not the runtime API: every installation with a GPU has the driver library, and the
// driver's functions keep their signatures.
#include "device/cuda.h"

#include <string>
#include <utility>

#include "base/error.h"

namespace safetensors::device {

Error Cuda::error(CudaResult result, std::string_view what) const noexcept {
  return base::guarded([&] {
    std::string message(what);
    const char* name = nullptr;
    const char* text = nullptr;
    if (calls_.get_error_name(result, &name) == CudaResult::success && name) {
      message.append(": ").append(printable(name));
    } else {
      message.append(": CUDA error ").append(std::to_string(static_cast<int>(result)));
    }
    if (calls_.get_error_string(result, &text) == CudaResult::success && text) {
      message.append(" (").append(printable(text)).append(")");
    }
    return base::make_error(Errc::device_failed, std::move(message));
  });
}

}  // namespace safetensors::device
