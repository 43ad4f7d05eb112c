#include "base/hash.h"

#include <chrono>
#include <random>

namespace safetensors::base {

HashSeed HashSeed::random() noexcept {
  HashSeed seed;
  try {
    std::random_device device;
    const auto word = [&device] { return static_cast<std::uint64_t>(device()) << 32 | device(); };
    seed.a ^= word();
    seed.b ^= word();
  } catch (...) {  // no source of randomness: an address and the clock are better than a constant
    seed.a ^= reinterpret_cast<std::uintptr_t>(&seed) * 0xA0761D6478BD642Fu;
    seed.b ^= static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  return seed;
}

}  // namespace safetensors::base
