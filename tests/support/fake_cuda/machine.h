// The device of the fake driver: a thread that does the work of the CUDA streams late, and in a random order between
// streams.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "device/cuda.h"
#include "fake_cuda.h"

namespace fake_cuda {

using safetensors::device::Address;
using safetensors::device::CudaResult;

constexpr CudaResult kInvalidValue{1};
constexpr CudaResult kNotInitialized{3};
constexpr CudaResult kInvalidDevice{101};
constexpr CudaResult kInvalidContext{201};
constexpr CudaResult kInvalidHandle{400};
constexpr CudaResult kIllegalAddress{700};

struct FakeEvent {
  std::uint64_t recorded = 0;  // number of operations that record the event
  std::uint64_t done = 0;      // highest `turn` of these that is complete
};

struct Operation {
  enum Kind { copy, record, wait } kind;
  std::shared_ptr<FakeEvent> event = nullptr;
  std::uint64_t turn = 0;  // value of `recorded` that this operation makes or waits for
  Address to = 0;
  const std::byte* from = nullptr;
  std::size_t size = 0;
};

struct FakeStream {
  std::deque<Operation> operations;
  std::uint64_t given = 0, done = 0;
  bool destroyed = false;
};

struct Failure {
  unsigned call;
  CudaResult result;
  bool sticky;
};

// An allocation of device memory. Guards before and after it show writes out of bounds.
struct Allocation {
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kPattern{0xA5};
  explicit Allocation(std::size_t size) : bytes(size + 2 * kGuard, kPattern) {}
  [[nodiscard]] std::byte* begin() { return bytes.data() + kGuard; }
  [[nodiscard]] std::size_t size() const { return bytes.size() - 2 * kGuard; }
  [[nodiscard]] bool guarded() const;
  std::vector<std::byte> bytes;
};

// `mutex` guards all other members.
struct Machine {
  std::mutex mutex;
  std::condition_variable changed;
  FakeCudaState state{};
  std::string violation;
  bool initialized = false;
  int devices = 1;
  std::size_t host_limit = ~std::size_t{0};
  unsigned delay = 0;
  std::mt19937 random;
  bool held = false;
  unsigned steps = 0;  // number of operations that may still run while `held` is true
  bool busy = false;
  CudaResult dead = CudaResult::success;
  std::map<std::string, unsigned> calls;
  std::map<std::string, Failure> failures;

  std::map<void*, std::shared_ptr<FakeStream>> streams;  // null: the default stream
  std::map<void*, std::shared_ptr<FakeEvent>> events;
  std::map<const std::byte*, std::size_t> pinned;
  std::map<Address, std::unique_ptr<Allocation>> allocations;

  std::thread worker;
  bool stopping = false;

  Machine();
  ~Machine();
  void reset();
  void violate(const std::string& what);
  void die(std::unique_lock<std::mutex>& lock, CudaResult result);

  void give(FakeStream& stream, Operation operation);
  [[nodiscard]] std::byte* device_memory(Address address, std::size_t size);
  [[nodiscard]] bool is_pinned(const std::byte* memory, std::size_t size) const;
  [[nodiscard]] bool is_read_from(const std::byte* memory, std::size_t size) const;

 private:
  void work();
  [[nodiscard]] std::shared_ptr<FakeStream> choose();
  void run(std::unique_lock<std::mutex>& lock, const Operation& operation);
  void run_copy(std::unique_lock<std::mutex>& lock, const Operation& operation);
  void drop_all();
};

Machine& machine();

}  // namespace fake_cuda
