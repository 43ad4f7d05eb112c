// The CUDA driver, opened at run time. No file of CUDA is needed to build.
//
// Names, signatures and numbers come from NVIDIA's "CUDA Driver API" reference manual. If a symbol of the library has a
// version with the suffix _v2, this code binds that version and leaves the suffix out of its own name.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace safetensors::device {

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
using Context = CUctx_st*;
using Stream = CUstream_st*;  // null: the default stream
using Event = CUevent_st*;
using Device = int;
using Address = std::uint64_t;  // of device memory

// CUresult: the values with a meaning for this library. The driver can return any other value too.
enum class CudaResult : int { success = 0, out_of_memory = 2, no_device = 100, not_ready = 600 };

inline constexpr unsigned kStreamNonBlocking = 1;   // CU_STREAM_NON_BLOCKING: independent of the default stream
inline constexpr unsigned kEventBlockingSync = 1;   // CU_EVENT_BLOCKING_SYNC: a waiting thread sleeps
inline constexpr unsigned kEventDisableTiming = 2;  // CU_EVENT_DISABLE_TIMING

// The functions of the driver, null without a library. The constructor finds them in this order.
struct CudaCalls {
  // An address that converts to every type of function.
  struct Symbol {
    void* address;
    template <class Function>
    operator Function*() const noexcept {
      return reinterpret_cast<Function*>(address);
    }
  };
  explicit CudaCalls(void* library) noexcept;
  [[nodiscard]] Symbol find(const char* name) noexcept;

  void* library;
  const char* missing = nullptr;  // the name of the first function that the library does not have
  CudaResult (*init)(unsigned flags) = find("cuInit");
  CudaResult (*get_error_name)(CudaResult result, const char** name) = find("cuGetErrorName");
  CudaResult (*get_error_string)(CudaResult result, const char** text) = find("cuGetErrorString");
  CudaResult (*device_get_count)(int* count) = find("cuDeviceGetCount");
  CudaResult (*device_get)(Device* device, int ordinal) = find("cuDeviceGet");
  CudaResult (*primary_context_retain)(Context* context, Device device) = find("cuDevicePrimaryCtxRetain");
  CudaResult (*primary_context_release)(Device device) = find("cuDevicePrimaryCtxRelease_v2");
  CudaResult (*context_push)(Context context) = find("cuCtxPushCurrent_v2");
  CudaResult (*context_pop)(Context* context) = find("cuCtxPopCurrent_v2");
  CudaResult (*memory_allocate)(Address* address, std::size_t size) = find("cuMemAlloc_v2");
  CudaResult (*memory_free)(Address address) = find("cuMemFree_v2");
  CudaResult (*host_allocate)(void** memory, std::size_t size, unsigned flags) = find("cuMemHostAlloc");
  CudaResult (*host_free)(void* memory) = find("cuMemFreeHost");
  CudaResult (*copy_to_device_async)(Address to, const void* from, std::size_t size,
                                     Stream stream) = find("cuMemcpyHtoDAsync_v2");
  CudaResult (*copy_from_device)(void* to, Address from, std::size_t size) = find("cuMemcpyDtoH_v2");
  CudaResult (*stream_create)(Stream* stream, unsigned flags) = find("cuStreamCreate");
  CudaResult (*stream_destroy)(Stream stream) = find("cuStreamDestroy_v2");
  CudaResult (*stream_synchronize)(Stream stream) = find("cuStreamSynchronize");
  CudaResult (*stream_wait_event)(Stream stream, Event event, unsigned flags) = find("cuStreamWaitEvent");
  CudaResult (*event_create)(Event* event, unsigned flags) = find("cuEventCreate");
  CudaResult (*event_record)(Event event, Stream stream) = find("cuEventRecord");
  CudaResult (*event_query)(Event event) = find("cuEventQuery");
  CudaResult (*event_synchronize)(Event event) = find("cuEventSynchronize");
  CudaResult (*event_destroy)(Event event) = find("cuEventDestroy_v2");
};

// The initialized driver. Thread-safe. The child of a fork must not use it if the parent called load() before the fork.
class Cuda {
 public:
  // library: a name for the dynamic linker, or a path. An initialized driver stays loaded until the process ends,
  // because it has threads of its own. Errors: unsupported (no such library, a missing function, no device),
  // device_failed.
  [[nodiscard]] static Result<std::shared_ptr<const Cuda>> load(const char* library = "libcuda.so.1") noexcept;

  [[nodiscard]] const CudaCalls& calls() const noexcept { return calls_; }

  // Returns device_failed with a message such as "WHAT: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was
  // encountered)".
  [[nodiscard]] Error error(CudaResult result, std::string_view what) const noexcept;

 private:
  explicit Cuda(const CudaCalls& calls) noexcept : calls_(calls) {}

  CudaCalls calls_;
};

// Makes the context of a device current on the calling thread while this object lives.
class Current {
 public:
  Current(const CudaCalls& calls, Context context) noexcept : calls_(calls), result_(calls.context_push(context)) {}
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current() {
    Context popped = nullptr;
    if (ok()) (void)calls_.context_pop(&popped);
  }

  [[nodiscard]] bool ok() const noexcept { return result_ == CudaResult::success; }
  [[nodiscard]] CudaResult result() const noexcept { return result_; }

 private:
  const CudaCalls& calls_;
  const CudaResult result_;
};

}  // namespace safetensors::device
