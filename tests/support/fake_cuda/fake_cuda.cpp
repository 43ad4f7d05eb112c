// The entry points of the fake driver.
#include "fake_cuda.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>

#include "machine.h"

namespace fake_cuda {
namespace {

using safetensors::device::Context;
using safetensors::device::Device;
using safetensors::device::Event;
using safetensors::device::Stream;

using Lock = std::unique_lock<std::mutex>;

struct Description {
  int number;
  const char* name;
  const char* text;
};

constexpr Description kDescriptions[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};

constexpr int kMostDevices = 8;
char contexts[kMostDevices];
thread_local int depth = 0;

enum class Kind {
  plain,    // needs no context, and works in a dead one
  context,  // needs one
  frees,    // needs one, and does its work even when it says that something failed
  leaves,   // as frees, without a context
};

CudaResult ordered_failure(Lock& lock, const char* name) {
  const unsigned call = ++machine().calls[name];
  const auto failure = machine().failures.find(name);
  if (failure == machine().failures.end() || failure->second.call != call) return CudaResult::success;
  const Failure found = failure->second;
  if (found.sticky) machine().die(lock, found.result);
  return found.result;
}

template <class Body>
CudaResult call(const char* name, Kind kind, Body&& body) {
  Lock lock(machine().mutex);
  CudaResult failure = ordered_failure(lock, name);
  if (!machine().initialized) {
    machine().violate(std::string(name) + " before cuInit");
    return kNotInitialized;
  }
  if ((kind == Kind::context || kind == Kind::frees) && depth == 0) {
    machine().violate(std::string(name) + " without a context");
    return kInvalidContext;
  }
  if (failure == CudaResult::success && kind != Kind::plain) failure = machine().dead;
  if (failure != CudaResult::success && kind != Kind::frees && kind != Kind::leaves) return failure;
  const CudaResult result = body(lock);
  return failure != CudaResult::success ? failure : result;
}

FakeStream* find(Stream stream) {
  const auto found = machine().streams.find(stream);
  if (found != machine().streams.end() && !found->second->destroyed) return found->second.get();
  machine().violate("a stream that is not there");
  return nullptr;
}

std::shared_ptr<FakeEvent> find(Event event) {
  const auto found = machine().events.find(event);
  if (found != machine().events.end()) return found->second;
  machine().violate("an event that is not there");
  return nullptr;
}

template <class Done>
CudaResult wait_until(Lock& lock, Done&& done) {
  Machine& m = machine();
  if (!done()) {
    ++m.state.waiting;
    m.changed.wait(lock, [&] { return done() || m.dead != CudaResult::success; });
    --m.state.waiting;
  }
  return m.dead;
}

const Description* describe(CudaResult result) {
  const auto* found = std::find_if(std::begin(kDescriptions), std::end(kDescriptions),
                                   [&](const Description& d) { return d.number == static_cast<int>(result); });
  return found == std::end(kDescriptions) ? nullptr : found;
}

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

CudaResult cuInit(unsigned flags) {
  Lock lock(machine().mutex);
  if (const CudaResult failure = ordered_failure(lock, "cuInit"); failure != CudaResult::success) return failure;
  if (flags != 0) return kInvalidValue;
  machine().initialized = true;
  return CudaResult::success;
}

CudaResult cuGetErrorName(CudaResult result, const char** name) {
  Lock lock(machine().mutex);
  *name = nullptr;
  if (const CudaResult failure = ordered_failure(lock, "cuGetErrorName"); failure != CudaResult::success) {
    return failure;
  }
  const Description* const found = describe(result);
  if (found) *name = found->name;
  return found ? CudaResult::success : kInvalidValue;
}

CudaResult cuGetErrorString(CudaResult result, const char** text) {
  Lock lock(machine().mutex);
  *text = nullptr;
  if (const CudaResult failure = ordered_failure(lock, "cuGetErrorString"); failure != CudaResult::success) {
    return failure;
  }
  const Description* const found = describe(result);
  if (found) *text = found->text;
  return found ? CudaResult::success : kInvalidValue;
}

CudaResult cuDeviceGetCount(int* count) {
  return call("cuDeviceGetCount", Kind::plain, [&](Lock&) {
    *count = machine().devices;
    return CudaResult::success;
  });
}

CudaResult cuDeviceGet(Device* device, int ordinal) {
  return call("cuDeviceGet", Kind::plain, [&](Lock&) {
    if (ordinal < 0 || ordinal >= machine().devices) return kInvalidDevice;
    *device = ordinal;
    return CudaResult::success;
  });
}

CudaResult cuDevicePrimaryCtxRetain(Context* context, Device device) {
  return call("cuDevicePrimaryCtxRetain", Kind::plain, [&](Lock&) {
    ++machine().state.contexts;
    *context = reinterpret_cast<Context>(&contexts[device]);
    return CudaResult::success;
  });
}

CudaResult cuDevicePrimaryCtxRelease_v2(Device) {
  return call("cuDevicePrimaryCtxRelease_v2", Kind::leaves, [&](Lock&) {
    if (--machine().state.contexts < 0) machine().violate("a context was released once too often");
    return CudaResult::success;
  });
}

CudaResult cuCtxPushCurrent_v2(Context) {
  return call("cuCtxPushCurrent_v2", Kind::plain, [&](Lock&) {
    if (machine().state.contexts == 0) machine().violate("a context that is not retained was pushed");
    ++depth;
    ++machine().state.pushed;
    return CudaResult::success;
  });
}

CudaResult cuCtxPopCurrent_v2(Context* context) {
  return call("cuCtxPopCurrent_v2", Kind::leaves, [&](Lock&) {
    if (depth == 0) return kInvalidContext;
    *context = reinterpret_cast<Context>(&contexts[0]);
    --depth;
    --machine().state.pushed;
    return CudaResult::success;
  });
}

CudaResult cuMemAlloc_v2(Address* address, std::size_t size) {
  return call("cuMemAlloc_v2", Kind::context, [&](Lock&) {
    if (size == 0) return kInvalidValue;
    auto allocation = std::make_unique<Allocation>(size);
    *address = reinterpret_cast<std::uintptr_t>(allocation->begin());
    machine().allocations.emplace(*address, std::move(allocation));
    ++machine().state.device_allocations;
    return CudaResult::success;
  });
}

CudaResult cuMemFree_v2(Address address) {
  return call("cuMemFree_v2", Kind::frees, [&](Lock&) {
    const auto found = machine().allocations.find(address);
    if (found == machine().allocations.end()) return kInvalidValue;
    if (!found->second->guarded()) machine().violate("device memory was written outside of an allocation");
    machine().allocations.erase(found);
    --machine().state.device_allocations;
    return CudaResult::success;
  });
}

CudaResult cuMemHostAlloc(void** memory, std::size_t size, unsigned) {
  return call("cuMemHostAlloc", Kind::context, [&](Lock&) {
    Machine& m = machine();
    if (size > m.host_limit - static_cast<std::size_t>(m.state.pinned_bytes)) return CudaResult::out_of_memory;
    *memory = ::operator new (size, std::align_val_t{4096}, std::nothrow);
    if (!*memory) return CudaResult::out_of_memory;
    std::memset(*memory, 0xEE, size);
    m.pinned.emplace(static_cast<std::byte*>(*memory), size);
    m.state.pinned_bytes += static_cast<std::int64_t>(size);
    m.state.most_pinned_bytes = std::max(m.state.most_pinned_bytes, m.state.pinned_bytes);
    return CudaResult::success;
  });
}

CudaResult cuMemFreeHost(void* memory) {
  return call("cuMemFreeHost", Kind::frees, [&](Lock&) {
    Machine& m = machine();
    const auto found = m.pinned.find(static_cast<std::byte*>(memory));
    if (found == m.pinned.end()) {
      m.violate("host memory was freed that is not pinned");
      return kInvalidValue;
    }
    if (m.is_read_from(found->first, found->second)) m.violate("pinned memory was freed before a copy from it");
    m.state.pinned_bytes -= static_cast<std::int64_t>(found->second);
    m.pinned.erase(found);
    ::operator delete (memory, std::align_val_t{4096});
    return CudaResult::success;
  });
}

CudaResult cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t size, Stream stream) {
  return call("cuMemcpyHtoDAsync_v2", Kind::context, [&](Lock&) {
    FakeStream* const found = find(stream);
    if (!found) return kInvalidHandle;
    if (!machine().is_pinned(static_cast<const std::byte*>(from), size)) {
      machine().violate("a copy from memory that is not pinned");
      return kInvalidValue;
    }
    Operation copy{.kind = Operation::copy};
    copy.to = to;
    copy.from = static_cast<const std::byte*>(from);
    copy.size = size;
    machine().give(*found, copy);
    return CudaResult::success;
  });
}

// Waits for nothing: who has not waited for his copies sees what there is.
CudaResult cuMemcpyDtoH_v2(void* to, Address from, std::size_t size) {
  return call("cuMemcpyDtoH_v2", Kind::context, [&](Lock&) {
    const std::byte* const memory = machine().device_memory(from, size);
    if (!memory) return kIllegalAddress;
    std::memcpy(to, memory, size);
    return CudaResult::success;
  });
}

CudaResult cuStreamCreate(Stream* stream, unsigned) {
  return call("cuStreamCreate", Kind::context, [&](Lock&) {
    auto created = std::make_shared<FakeStream>();
    *stream = reinterpret_cast<Stream>(created.get());
    machine().streams[*stream] = std::move(created);
    ++machine().state.streams;
    return CudaResult::success;
  });
}

CudaResult cuStreamDestroy_v2(Stream stream) {
  return call("cuStreamDestroy_v2", Kind::frees, [&](Lock&) {
    FakeStream* const found = find(stream);
    if (!found) return kInvalidHandle;
    found->destroyed = true;
    --machine().state.streams;
    machine().changed.notify_all();
    return CudaResult::success;
  });
}

CudaResult cuStreamSynchronize(Stream stream) {
  return call("cuStreamSynchronize", Kind::context, [&](Lock& lock) {
    if (!find(stream)) return kInvalidHandle;
    const std::shared_ptr<FakeStream> found = machine().streams[stream];
    return wait_until(lock, [&, given = found->given] { return found->done >= given; });
  });
}

CudaResult cuStreamWaitEvent(Stream stream, Event event, unsigned) {
  return call("cuStreamWaitEvent", Kind::context, [&](Lock&) {
    FakeStream* const found = find(stream);
    const std::shared_ptr<FakeEvent> awaited = find(event);
    if (!found || !awaited) return kInvalidHandle;
    machine().give(*found, {.kind = Operation::wait, .event = awaited, .turn = awaited->recorded});
    return CudaResult::success;
  });
}

CudaResult cuEventCreate(Event* event, unsigned) {
  return call("cuEventCreate", Kind::context, [&](Lock&) {
    auto created = std::make_shared<FakeEvent>();
    *event = reinterpret_cast<Event>(created.get());
    machine().events[*event] = std::move(created);
    ++machine().state.events;
    return CudaResult::success;
  });
}

CudaResult cuEventRecord(Event event, Stream stream) {
  return call("cuEventRecord", Kind::context, [&](Lock&) {
    FakeStream* const found = find(stream);
    const std::shared_ptr<FakeEvent> recorded = find(event);
    if (!found || !recorded) return kInvalidHandle;
    if (recorded->done < recorded->recorded) machine().violate("an event was recorded again before it was done");
    machine().give(*found, {.kind = Operation::record, .event = recorded, .turn = ++recorded->recorded});
    return CudaResult::success;
  });
}

CudaResult cuEventQuery(Event event) {
  return call("cuEventQuery", Kind::context, [&](Lock&) {
    const std::shared_ptr<FakeEvent> found = find(event);
    if (!found) return kInvalidHandle;
    return found->done >= found->recorded ? CudaResult::success : CudaResult::not_ready;
  });
}

CudaResult cuEventSynchronize(Event event) {
  return call("cuEventSynchronize", Kind::context, [&](Lock& lock) {
    const std::shared_ptr<FakeEvent> found = find(event);
    if (!found) return kInvalidHandle;
    return wait_until(lock, [&, recorded = found->recorded] { return found->done >= recorded; });
  });
}

CudaResult cuEventDestroy_v2(Event event) {
  return call("cuEventDestroy_v2", Kind::frees, [&](Lock&) {
    if (!find(event)) return kInvalidHandle;
    machine().events.erase(event);
    --machine().state.events;
    return CudaResult::success;
  });
}

void fake_cuda_reset() {
  machine().reset();
}

void fake_cuda_devices(int count) {
  const Lock lock(machine().mutex);
  machine().devices = std::min(count, kMostDevices);
}

void fake_cuda_host_limit(std::size_t bytes) {
  const Lock lock(machine().mutex);
  machine().host_limit = bytes;
}

void fake_cuda_delay(unsigned most_microseconds, unsigned seed) {
  const Lock lock(machine().mutex);
  machine().delay = most_microseconds;
  machine().random.seed(seed);
}

void fake_cuda_hold(int held) {
  const Lock lock(machine().mutex);
  machine().held = held != 0;
  machine().changed.notify_all();
}

void fake_cuda_step(unsigned operations) {
  const Lock lock(machine().mutex);
  machine().steps += operations;
  machine().changed.notify_all();
}

void fake_cuda_fail(const char* function, unsigned call, int result, int sticky) {
  const Lock lock(machine().mutex);
  machine().failures[function] = {.call = call, .result = CudaResult{result}, .sticky = sticky != 0};
}

unsigned fake_cuda_calls(const char* function) {
  const Lock lock(machine().mutex);
  return machine().calls[function];
}

void fake_cuda_state(FakeCudaState* state) {
  const Lock lock(machine().mutex);
  *state = machine().state;
}

const char* fake_cuda_violation() {
  const Lock lock(machine().mutex);
  return machine().violation.c_str();
}

int fake_cuda_depth() {
  return depth;
}
}
