// Counts allocations or system calls while a call is under test, and picks the one that fails. All counters are atomic:
// the threads of a plan allocate and read at once.
#include "faults/counting.h"

#include <atomic>

namespace safetensors::test::faults {
namespace {

std::atomic<bool> armed{false};
std::atomic<Kind> kind{Kind::none};
std::atomic<std::uint64_t> ordinal{0};
std::atomic<std::size_t> variant{0};
std::atomic<std::uint64_t> count{0};
std::atomic<bool> done{false};

bool is_allocation(Kind what) noexcept {
  return what == Kind::allocation || what == Kind::every_allocation;
}
bool is_system_call(Kind what) noexcept {
  return what == Kind::system_call || what == Kind::short_system_call;
}

}  // namespace

void choose(const Fault& fault) {
  kind = fault.kind;
  ordinal = fault.ordinal;
  variant = fault.variant;
  count = 0;
  done = false;
}

bool happened() {
  return done.load();
}

std::uint64_t counted() {
  return count.load();
}

Fault chosen() noexcept {
  return {.kind = kind.load(), .ordinal = ordinal.load(), .variant = variant.load()};
}

bool fail_allocation() noexcept {
  const Kind what = kind.load(std::memory_order_relaxed);
  if (!is_allocation(what) || !armed.load(std::memory_order_relaxed)) return false;
  const std::uint64_t now = count.fetch_add(1);
  if (what == Kind::allocation ? now != ordinal.load() : now < ordinal.load()) return false;
  done = true;
  return true;
}

bool fail_system_call() noexcept {
  if (!is_system_call(kind.load()) || !armed.load()) return false;
  if (count.fetch_add(1) != ordinal.load()) return false;
  done = true;
  return true;
}

Armed::Armed() {
  // A call that is tried again after every allocation has failed must succeed.
  armed = !(kind.load() == Kind::every_allocation && done.load());
}

Armed::~Armed() {
  armed = false;
}

}  // namespace safetensors::test::faults
