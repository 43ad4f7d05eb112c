#include "machine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace fake_cuda {

bool Allocation::guarded() const {
  const auto whole = [](std::byte byte) { return byte == kPattern; };
  return std::all_of(bytes.begin(), bytes.begin() + kGuard, whole) &&
         std::all_of(bytes.end() - kGuard, bytes.end(), whole);
}

Machine& machine() {
#ifdef _WIN32
  static Machine& machine = *new Machine;  // Windows ends the thread before the destructor, which would wait for it
#else
  static Machine machine;
#endif
  return machine;
}

Machine::Machine() {
  streams[nullptr] = std::make_shared<FakeStream>();
  worker = std::thread([this] { work(); });
}

Machine::~Machine() {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  worker.join();
}

void Machine::reset() {
  const std::lock_guard lock(mutex);
  initialized = false;
  state = {};
  violation.clear();
  devices = 1;
  host_limit = ~std::size_t{0};
  delay = 0;
  random.seed(1);
  held = false;
  steps = 0;
  dead = CudaResult::success;
  calls.clear();
  failures.clear();
  streams.clear();
  streams[nullptr] = std::make_shared<FakeStream>();
  events.clear();
  pinned.clear();
  allocations.clear();
  changed.notify_all();
}

void Machine::violate(const std::string& what) {
  if (state.violations++ == 0) violation = what;
}

// A copy that is being done is done to its end: only then may memory go.
void Machine::die(std::unique_lock<std::mutex>& lock, CudaResult result) {
  changed.wait(lock, [this] { return !busy; });
  dead = result;
  drop_all();
}

void Machine::drop_all() {
  for (auto& [handle, stream] : streams) {
    stream->operations.clear();
    stream->done = stream->given;
  }
  for (auto& [handle, event] : events) event->done = event->recorded;
  changed.notify_all();
}

void Machine::give(FakeStream& stream, Operation operation) {
  stream.operations.push_back(std::move(operation));
  ++stream.given;
  changed.notify_all();
}

std::byte* Machine::device_memory(Address address, std::size_t size) {
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin()) return nullptr;
  auto& [begin, allocation] = *--after;
  const std::uint64_t offset = address - begin;
  if (offset > allocation->size() || size > allocation->size() - offset) return nullptr;
  return allocation->begin() + offset;
}

bool Machine::is_pinned(const std::byte* memory, std::size_t size) const {
  auto after = pinned.upper_bound(memory);
  if (after == pinned.begin()) return false;
  const auto& [begin, length] = *--after;
  const auto offset = static_cast<std::size_t>(memory - begin);
  return offset <= length && size <= length - offset;
}

bool Machine::is_read_from(const std::byte* memory, std::size_t size) const {
  for (const auto& [handle, stream] : streams) {
    for (const Operation& operation : stream->operations) {
      if (operation.kind == Operation::copy && operation.from < memory + size &&
          memory < operation.from + operation.size) {
        return true;
      }
    }
  }
  return false;
}

std::shared_ptr<FakeStream> Machine::choose() {
  std::vector<std::shared_ptr<FakeStream>> ready;
  for (auto stream = streams.begin(); stream != streams.end();) {
    const auto& operations = stream->second->operations;
    if (operations.empty() && stream->second->destroyed) {
      stream = streams.erase(stream);
      continue;
    }
    if (!operations.empty() &&
        (operations.front().kind != Operation::wait || operations.front().event->done >= operations.front().turn)) {
      ready.push_back(stream->second);
    }
    ++stream;
  }
  if (ready.empty() || (held && steps == 0)) return nullptr;
  if (held) --steps;
  return ready[random() % ready.size()];
}

void Machine::work() {
  std::unique_lock lock(mutex);
  while (!stopping) {
    const std::shared_ptr<FakeStream> stream = choose();
    if (!stream) {
      changed.wait(lock);
      continue;
    }
    // Stays at the front while it runs: is_read_from() must see it.
    const Operation operation = stream->operations.front();
    busy = true;
    run(lock, operation);
    busy = false;
    stream->operations.pop_front();
    ++stream->done;
    if (dead != CudaResult::success) drop_all();
    changed.notify_all();
  }
}

void Machine::run(std::unique_lock<std::mutex>& lock, const Operation& operation) {
  if (operation.kind == Operation::copy) run_copy(lock, operation);
  if (operation.kind == Operation::record) {
    operation.event->done = std::max(operation.event->done, operation.turn);
  }
}

// Copies after a delay, from the bytes that the memory holds then.
void Machine::run_copy(std::unique_lock<std::mutex>& lock, const Operation& operation) {
  if (delay != 0) {
    const auto time = std::chrono::microseconds(random() % (delay + 1));
    lock.unlock();
    std::this_thread::sleep_for(time);
    lock.lock();
  }
  if (!is_pinned(operation.from, operation.size)) {
    violate("pinned memory was freed before a copy from it");
    return;
  }
  std::byte* const to = device_memory(operation.to, operation.size);
  if (!to) {
    dead = kIllegalAddress;
    return;
  }
  lock.unlock();
  std::memcpy(to, operation.from, operation.size);
  lock.lock();
  ++state.copies;
}

}  // namespace fake_cuda
