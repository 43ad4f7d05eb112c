// The calls for systems that lack pages that are provided in advance, the share of a file in the page cache, advice
// about it, and leases. Each answer says that the system lacks it.
#include "os/leased_map.h"
#include "os/memory.h"
#include "os/residency.h"

namespace safetensors::os {

void provide_untouched(std::span<std::byte>) noexcept {}

std::optional<double> cached_share(int, std::uint64_t, std::uint64_t) noexcept {
  return std::nullopt;
}

void advise_cache(int, std::uint64_t, std::uint64_t, CacheAdvice) noexcept {}

std::optional<LeasedMap> LeasedMap::make(int, std::uint64_t, std::uint64_t) noexcept {
  return std::nullopt;
}

LeasedMap::~LeasedMap() = default;

std::chrono::nanoseconds thread_time() noexcept {
  return {};
}

}  // namespace safetensors::os
