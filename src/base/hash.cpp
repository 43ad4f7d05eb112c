// Makes the keys of hash tables. A process asks the system once for 128 random bits, its secret. The key of each table
// is SipHash-2-4 of a counter and the number of the process, with the secret as its key. So no two tables share a key,
// and one key reveals nothing about another one. To ask the system took 60 microseconds on a virtual machine, which is
// longer than the parsing of a small header.
#include "base/hash.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>

#include "base/exceptions.h"

namespace safetensors::base {
namespace {

HashKey new_secret() noexcept {
  HashKey secret;
  return caught_all(
      [&] {
        std::random_device device;
        const auto word = [&device] { return static_cast<std::uint64_t>(device()) << 32 | device(); };
        secret.k0 = word();
        secret.k1 = word();
        return secret;
      },
      [&] {  // The system has no source of randomness. An address and the clock are better than a constant.
        secret.k0 = reinterpret_cast<std::uintptr_t>(&secret);
        secret.k1 = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
        return secret;
      });
}

}  // namespace

std::uint64_t process_id() noexcept {
  return static_cast<std::uint64_t>(::getpid());
}

HashKey HashKey::random() noexcept {
  static const HashKey secret = new_secret();
  static std::atomic<std::uint64_t> used = 0;
  const std::uint64_t first = used.fetch_add(2, std::memory_order_relaxed);
  const std::uint64_t process = process_id();  // a forked child has the secret and the counter, too
  const auto word = [process](std::uint64_t number) {
    const std::uint64_t both[] = {number, process};
    return SipHash<2, 4>::of({reinterpret_cast<const char*>(both), sizeof both}, secret);
  };
  return {word(first), word(first + 1)};
}

}  // namespace safetensors::base
