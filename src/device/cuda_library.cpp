// Opens the library of the CUDA driver and binds its functions by name. So one build runs on machines with and without
// CUDA, and nothing of CUDA is needed to compile it. safetensors::reader has src/device/absent instead.
#include <memory>
#include <string>

#include "base/error.h"
#include "device/cuda.h"
#include "os/dynamic_library.h"

namespace safetensors::device {

CudaCalls::CudaCalls(void* opened) noexcept : library(opened) {}

CudaCalls::Symbol CudaCalls::find(const char* name) noexcept {
  void* const address = os::find_function(library, name);
  if (address == nullptr && missing == nullptr) missing = name;
  return {address};
}

Result<std::shared_ptr<const Cuda>> Cuda::load(const char* library) noexcept {
  return base::guarded([&]() -> Result<std::shared_ptr<const Cuda>> {
    const char* reason = library;
    std::unique_ptr<void, decltype(&os::unload_library)> opened(os::load_library(library, reason), os::unload_library);
    if (opened == nullptr)
      return base::make_error(Errc::unsupported, {"the CUDA driver cannot be loaded: ", printable(reason)});
    const CudaCalls calls(opened.get());
    if (calls.missing != nullptr) {
      return base::make_error(Errc::unsupported, {"the CUDA driver ", printable(library), " has no ", calls.missing});
    }
    const CudaResult result = calls.init(0);
    // After cuInit() the driver may have threads, so the library must not be unloaded, even on an error.
    std::shared_ptr<const Cuda> cuda(new Cuda(calls));
    (void)opened.release();
    if (result == CudaResult::success) return cuda;
    Error error = cuda->error(result, "the CUDA driver cannot be initialized");
    if (result == CudaResult::no_device) error.code = Errc::unsupported;
    return error;
  });
}

}  // namespace safetensors::device
