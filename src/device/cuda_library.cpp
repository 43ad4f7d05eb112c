// Opens the library of the CUDA driver and binds its functions by name. So one build runs on machines with and without
// CUDA, and nothing of CUDA is needed to compile it. safetensors::reader has src/device/absent instead.
#include <memory>
#include <string>

#include "base/error.h"
#include "device/cuda.h"
#include "os/dynamic_library.h"

namespace safetensors::device {
namespace {

// Returns the name of the first missing function, or null.
const char* bind_all(void* library, CudaCalls& calls) noexcept {
  const char* missing = nullptr;
  const auto bind = [&]<class Function>(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(os::find_function(library, name));
    if (function == nullptr && missing == nullptr) missing = name;
  };
  bind(calls.init, "cuInit");
  bind(calls.get_error_name, "cuGetErrorName");
  bind(calls.get_error_string, "cuGetErrorString");
  bind(calls.device_get_count, "cuDeviceGetCount");
  bind(calls.device_get, "cuDeviceGet");
  bind(calls.primary_context_retain, "cuDevicePrimaryCtxRetain");
  bind(calls.primary_context_release, "cuDevicePrimaryCtxRelease_v2");
  bind(calls.context_push, "cuCtxPushCurrent_v2");
  bind(calls.context_pop, "cuCtxPopCurrent_v2");
  bind(calls.memory_allocate, "cuMemAlloc_v2");
  bind(calls.memory_free, "cuMemFree_v2");
  bind(calls.host_allocate, "cuMemHostAlloc");
  bind(calls.host_free, "cuMemFreeHost");
  bind(calls.copy_to_device_async, "cuMemcpyHtoDAsync_v2");
  bind(calls.copy_from_device, "cuMemcpyDtoH_v2");
  bind(calls.stream_create, "cuStreamCreate");
  bind(calls.stream_destroy, "cuStreamDestroy_v2");
  bind(calls.stream_synchronize, "cuStreamSynchronize");
  bind(calls.stream_wait_event, "cuStreamWaitEvent");
  bind(calls.event_create, "cuEventCreate");
  bind(calls.event_record, "cuEventRecord");
  bind(calls.event_query, "cuEventQuery");
  bind(calls.event_synchronize, "cuEventSynchronize");
  bind(calls.event_destroy, "cuEventDestroy_v2");
  return missing;
}

}  // namespace

Result<std::shared_ptr<const Cuda>> Cuda::load(const char* library) noexcept {
  return base::guarded([&]() -> Result<std::shared_ptr<const Cuda>> {
    const char* reason = library;
    std::unique_ptr<void, decltype(&os::unload_library)> opened(os::load_library(library, reason), os::unload_library);
    if (opened == nullptr)
      return base::make_error(Errc::unsupported, "the CUDA driver cannot be loaded: " + printable(reason));
    CudaCalls calls;
    if (const char* const missing = bind_all(opened.get(), calls); missing != nullptr) {
      return base::make_error(Errc::unsupported,
                              "the CUDA driver " + printable(library) + " has no " + std::string(missing));
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
