#include "io/descriptor_pool.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

namespace safetensors::io {
namespace {

constexpr std::uint64_t kUsers = 0xFFFFFFFF;

std::uint64_t pack(int descriptor, std::uint64_t users) noexcept {
  return (static_cast<std::uint64_t>(descriptor) + 1) << 32 | users;
}

// -1 when closed.
int descriptor_of(std::uint64_t state) noexcept {
  return static_cast<int>(state >> 32) - 1;
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

int DescriptorPool::enter(Slot& slot) noexcept {
  State state = slot.state.load(std::memory_order_acquire);
  while (state != 0) {
    if (!slot.state.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    if (!slot.recent.load(std::memory_order_relaxed)) slot.recent.store(true, std::memory_order_relaxed);
    return descriptor_of(state);
  }
  return -1;
}

void DescriptorPool::leave(std::size_t slot) noexcept {
  slots_[slot].state.fetch_sub(1, std::memory_order_acq_rel);
  while (open_.load(std::memory_order_relaxed) > limit_ && close_idle()) {
  }
}

// Of the slots that nobody uses, the first that was not used since the hand passed it.
bool DescriptorPool::close_idle() noexcept {
  for (std::size_t step = 0; step / 2 < size_; ++step) {
    Slot& slot = slots_[hand_.fetch_add(1, std::memory_order_relaxed) % size_];
    State state = slot.state.load(std::memory_order_acquire);
    if (state == 0 || (state & kUsers) != 0) continue;
    if (slot.recent.exchange(false, std::memory_order_relaxed)) continue;
    // From here on the descriptor is ours alone.
    if (!slot.state.compare_exchange_strong(state, 0, std::memory_order_acq_rel)) continue;
    ::close(descriptor_of(state));
    open_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }
  return false;
}

Result<Descriptor> DescriptorPool::open(const Opener& opener) noexcept {
  while (open_.load(std::memory_order_relaxed) > limit_ && close_idle()) {
  }
  Result<Descriptor> opened = opener.open();
  if (opened || !out_of_descriptors(opened.error())) return opened;
  bool closed = false;
  while (close_idle()) closed = true;
  return closed ? opener.open() : std::move(opened);
}

Result<Lease> DescriptorPool::acquire(std::size_t slot, const Opener& opener) noexcept {
  Slot& wanted = slots_[slot];
  while (true) {
    if (const int descriptor = enter(wanted); descriptor >= 0) return Lease(*this, slot, descriptor);
    open_.fetch_add(1, std::memory_order_relaxed);
    Result<Descriptor> opened = open(opener);
    State closed = 0;
    if (opened && wanted.state.compare_exchange_strong(closed, pack(opened->get(), 1), std::memory_order_acq_rel)) {
      wanted.recent.store(true, std::memory_order_relaxed);
      return Lease(*this, slot, opened->release());
    }
    open_.fetch_sub(1, std::memory_order_relaxed);
    if (!opened) return std::move(opened).error();
    // Another thread was faster: its descriptor, unless that is closed again already.
  }
}

void DescriptorPool::close(std::size_t slot) noexcept {
  const State state = slots_[slot].state.exchange(0, std::memory_order_acq_rel);
  if (state == 0) return;
  ::close(descriptor_of(state));
  open_.fetch_sub(1, std::memory_order_relaxed);
}

std::size_t descriptor_limit() noexcept {
  struct rlimit limit;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  const auto half = std::min<std::uint64_t>(limit.rlim_cur / 2, std::numeric_limits<std::size_t>::max());
  return std::max<std::size_t>(static_cast<std::size_t>(half), 1);
}

}  // namespace safetensors::io
