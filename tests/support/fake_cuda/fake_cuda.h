// Functions by which a test controls the fake driver and queries it. The shared object exports them beside the entry
// points of the driver. fake_driver.h finds them.
#pragma once

#include <cstddef>
#include <cstdint>

// The objects that are alive, and the calls that were seen.
struct FakeCudaState {
  std::int64_t contexts;  // times that a primary context is retained
  std::int64_t pushed;    // contexts on the stacks of all threads
  std::int64_t streams;
  std::int64_t events;
  std::int64_t pinned_bytes;
  std::int64_t most_pinned_bytes;
  std::int64_t device_allocations;
  std::int64_t waiting;     // threads inside cuEventSynchronize or cuStreamSynchronize, with something to wait for
  std::int64_t copies;      // done
  std::int64_t violations;  // uses of the driver that are never right
};

extern "C" {

// One device, no failures, no delays, nothing alive; everything before is forgotten. Only while nothing is alive.
void fake_cuda_reset();
void fake_cuda_devices(int count);
// cuMemHostAlloc gives no more than this in sum.
void fake_cuda_host_limit(std::size_t bytes);
// Each copy takes up to this long. The order between streams is random, always; seed chooses it.
void fake_cuda_delay(unsigned most_microseconds, unsigned seed);
// While held, the device does nothing of what it was given.
void fake_cuda_hold(int held);
// Lets so many operations through while it is held.
void fake_cuda_step(unsigned operations);
// The call-th call (from 1) of function returns result. A function that frees still frees, all others do nothing.
// sticky: from then on, the context is dead. Operations that are not done are never done, and only calls that free have
// an effect.
void fake_cuda_fail(const char* function, unsigned call, int result, int sticky);
unsigned fake_cuda_calls(const char* function);
void fake_cuda_state(FakeCudaState* state);
// The first violation, or "".
const char* fake_cuda_violation();
// Contexts on the calling thread's stack.
int fake_cuda_depth();
}
