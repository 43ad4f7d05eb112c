// Counts allocations or system calls while a call is under test, and picks the one that fails. All counters are atomic,
// because the threads of a plan allocate and read at the same time.
#include "faults/counting.h"

#include <atomic>

namespace safetensors::test::faults {
namespace {

struct {
  std::atomic<bool> armed{false};
  std::atomic<Kind> kind{Kind::none};
  std::atomic<std::uint64_t> ordinal{0};
  std::atomic<std::size_t> variant{0};
  std::atomic<std::uint64_t> count{0};
  std::atomic<bool> done{false};
} state;

bool is_allocation(Kind what) noexcept {
  return what == Kind::allocation || what == Kind::every_allocation;
}
bool is_system_call(Kind what) noexcept {
  return what == Kind::system_call || what == Kind::short_system_call;
}

}  // namespace

void choose(const Fault& fault) {
  state.kind = fault.kind;
  state.ordinal = fault.ordinal;
  state.variant = fault.variant;
  state.count = 0;
  state.done = false;
}

bool happened() {
  return state.done.load();
}

std::uint64_t counted() {
  return state.count.load();
}

Fault chosen() noexcept {
  return {.kind = state.kind.load(), .ordinal = state.ordinal.load(), .variant = state.variant.load()};
}

bool fail_allocation() noexcept {
  const Kind what = state.kind.load(std::memory_order_relaxed);
  if (!is_allocation(what) || !state.armed.load(std::memory_order_relaxed)) return false;
  const std::uint64_t now = state.count.fetch_add(1);
  if (what == Kind::allocation ? now != state.ordinal.load() : now < state.ordinal.load()) return false;
  state.done = true;
  return true;
}

bool fail_system_call() noexcept {
  if (!is_system_call(state.kind.load()) || !state.armed.load()) return false;
  if (state.count.fetch_add(1) != state.ordinal.load()) return false;
  state.done = true;
  return true;
}

Armed::Armed() {
  // A call that is tried again after every allocation has failed must succeed.
  state.armed = !(state.kind.load() == Kind::every_allocation && state.done.load());
}

Armed::~Armed() {
  state.armed = false;
}

}  // namespace safetensors::test::faults
