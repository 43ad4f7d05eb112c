// Makes the keys of hash tables: 128 random bits from the system. No two tables, processes or machines share a key, so
// an attacker cannot learn one from another.
#include "base/hash.h"

#include <chrono>
#include <random>

namespace safetensors::base {

HashKey HashKey::random() noexcept {
  HashKey key;
  try {
    std::random_device device;
    const auto word = [&device] { return static_cast<std::uint64_t>(device()) << 32 | device(); };
    key.k0 = word();
    key.k1 = word();
  } catch (...) {  // The system has no source of randomness. An address and the clock are better than a constant.
    key.k0 = reinterpret_cast<std::uintptr_t>(&key);
    key.k1 = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  return key;
}

}  // namespace safetensors::base
