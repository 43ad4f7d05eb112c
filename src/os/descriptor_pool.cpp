// A cache of open descriptors with the CLOCK algorithm: a hand moves over the slots and closes the first idle slot
// without recent use. CLOCK approximates least-recently-used without a list, so it needs no lock.
//
// The state of a slot is one 64-bit atomic: process, descriptor and number of users. Every transition is one
// compare-and-exchange. There are no locks, because a lock that another thread holds during fork() would stay locked
// forever in the child.
#include "os/descriptor_pool.h"

#include <algorithm>
#include <cerrno>
#include <thread>

#include "base/error.h"
#include "os/process.h"
#include "os/system.h"
#include "os/system_error.h"

namespace safetensors::os {
namespace {

// The bits of a state, from the highest: process (22), descriptor (26), users (16). Linux process IDs have at most 22
// bits. Those of Windows may have 32, but there is no fork, so the lowest 22 bits are enough.
constexpr unsigned kUserBits = 16;
constexpr unsigned kDescriptorBits = 26;
constexpr std::uint64_t kProcesses = (std::uint64_t{1} << (64 - kUserBits - kDescriptorBits)) - 1;
constexpr std::uint64_t kUsers = (std::uint64_t{1} << kUserBits) - 1;
constexpr std::uint64_t kDescriptors = (std::uint64_t{1} << kDescriptorBits) - 1;

std::uint64_t pack(std::uint64_t process, int descriptor, std::uint64_t users) noexcept {
  return process << (kUserBits + kDescriptorBits) | static_cast<std::uint64_t>(descriptor) << kUserBits | users;
}

std::uint64_t this_process() noexcept {
  return process_id() & kProcesses;
}

std::uint64_t process_of(std::uint64_t state) noexcept {
  return state >> (kUserBits + kDescriptorBits);
}

int descriptor_of(std::uint64_t state) noexcept {
  return static_cast<int>(state >> kUserBits & kDescriptors);
}

bool out_of_descriptors(const Error& error) noexcept {
  return error.os_error == EMFILE || error.os_error == ENFILE;
}

}  // namespace

DescriptorPool::DescriptorPool(std::size_t slots, std::size_t limit)
    : size_(slots), limit_(std::max<std::size_t>(limit, 1)), slots_(std::make_unique<Slot[]>(slots)) {}

DescriptorPool::~DescriptorPool() {
  for (std::size_t i = 0; i < size_; ++i) close(i);
}

// Returns whether the descriptor of a state is the slot's file in this process. If another process (the parent) wrote
// the state, the descriptor may be closed or may be another file here. So the function compares device and inode.
bool DescriptorPool::is_open(const Slot& slot, State state, std::uint64_t process) noexcept {
  if (process_of(state) == process) return true;
  FileStatus found;
  if (status_of(descriptor_of(state), found) != 0) return false;
  return found.identity.device == slot.device.load(std::memory_order_relaxed) &&
         found.identity.inode == slot.inode.load(std::memory_order_relaxed);
}

// Adds a user to an open slot and returns its descriptor, or -1 if the slot is closed. If the state is the parent's,
// this process takes over the descriptor with one user, because the parent's users do not run here.
int DescriptorPool::enter(Slot& slot, std::uint64_t process) noexcept {
  State state = slot.state.load(std::memory_order_acquire);
  while (state != 0) {
    State next = state + 1;
    if (process_of(state) != process) {
      const bool open = is_open(slot, state, process);
      next = open ? pack(process, descriptor_of(state), 1) : 0;
    } else if ((state & kUsers) == kUsers) {
      std::this_thread::yield();
      state = slot.state.load(std::memory_order_acquire);
      continue;
    }
    if (!slot.state.compare_exchange_weak(state, next, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
    if (next == 0) {
      open_.fetch_sub(1, std::memory_order_relaxed);
      return -1;
    }
    if (!slot.recent.load(std::memory_order_relaxed)) slot.recent.store(true, std::memory_order_relaxed);
    return descriptor_of(next);
  }
  return -1;
}

void DescriptorPool::leave(std::size_t slot, std::uint64_t process) noexcept {
  State state = slots_[slot].state.load(std::memory_order_relaxed);
  // In the child of a fork, the users of a slot do not include leases from before the fork.
  while (process_of(state) == process && (state & kUsers) != 0 &&
         !slots_[slot].state.compare_exchange_weak(state, state - 1, std::memory_order_acq_rel,
                                                   std::memory_order_relaxed)) {
  }
  while (open_.load(std::memory_order_relaxed) > limit_ && close_idle()) {
  }
}

// Closes the first slot that has no users and no use since the hand passed it last. Returns false if no slot is idle.
bool DescriptorPool::close_idle() noexcept {
  const std::uint64_t process = this_process();
  // Two rounds: the first one clears the marks of recent use, so the second one finds every idle slot.
  for (std::size_t step = 0; step / 2 < size_; ++step) {
    Slot& slot = slots_[hand_.fetch_add(1, std::memory_order_relaxed) % size_];
    State state = slot.state.load(std::memory_order_acquire);
    if (state == 0 || (process_of(state) == process && (state & kUsers) != 0)) continue;
    if (slot.recent.exchange(false, std::memory_order_relaxed)) continue;
    const bool open = is_open(slot, state, process);
    // After this exchange no other thread can use the descriptor.
    if (!slot.state.compare_exchange_strong(state, 0, std::memory_order_acq_rel)) continue;
    if (open) (void)real_system().close(descriptor_of(state));
    open_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }
  return false;
}

Result<Descriptor> DescriptorPool::open(const Opener& opener) noexcept {
  while (open_.load(std::memory_order_relaxed) > limit_ && close_idle()) {
  }
  Result<Descriptor> opened = opener.open();
  if (opened && static_cast<std::uint64_t>(opened->get()) > kDescriptors)
    return base::guarded([]() -> Result<Descriptor> { return system_error(Errc::open_failed, EMFILE, "cannot open"); });
  if (opened || !out_of_descriptors(opened.error())) return opened;
  // The limit of the process or the system may be lower than ours. Close every idle descriptor and try once more.
  bool closed = false;
  while (close_idle()) closed = true;
  return closed ? opener.open() : std::move(opened);
}

Result<Lease> DescriptorPool::acquire(std::size_t slot, const Opener& opener) noexcept {
  Slot& wanted = slots_[slot];
  const std::uint64_t process = this_process();
  while (true) {
    if (const int descriptor = enter(wanted, process); descriptor >= 0) return Lease(*this, slot, descriptor, process);
    // Count the descriptor before it is open, so that threads that open at the same time do not exceed the limit.
    open_.fetch_add(1, std::memory_order_relaxed);
    Result<Descriptor> opened = open(opener);
    State closed = 0;
    if (opened &&
        wanted.state.compare_exchange_strong(closed, pack(process, opened->get(), 1), std::memory_order_acq_rel)) {
      wanted.recent.store(true, std::memory_order_relaxed);
      return Lease(*this, slot, opened->release(), process);
    }
    open_.fetch_sub(1, std::memory_order_relaxed);
    if (!opened) return std::move(opened).error();
    // Another thread opened the slot first. Use its descriptor in the next round, unless it is closed again by then.
  }
}

void DescriptorPool::identify(std::size_t slot, const FileIdentity& identity) noexcept {
  // Relaxed: the exchange that opens the slot publishes both.
  slots_[slot].device.store(identity.device, std::memory_order_relaxed);
  slots_[slot].inode.store(identity.inode, std::memory_order_relaxed);
}

void DescriptorPool::close(std::size_t slot) noexcept {
  const State state = slots_[slot].state.exchange(0, std::memory_order_acq_rel);
  if (state == 0) return;
  if (is_open(slots_[slot], state, this_process())) (void)real_system().close(descriptor_of(state));
  open_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace safetensors::os
