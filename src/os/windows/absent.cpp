// What Windows does not have, or does not tell: huge pages without a privilege, the share of a file in the cache,
// advice about it, and leases.
#include "os/huge_pages.h"
#include "os/leased_map.h"
#include "os/residency.h"

namespace safetensors::os {

bool huge_pages_given() noexcept {
  return false;
}

std::optional<double> cached_share(int, std::uint64_t, std::uint64_t) noexcept {
  return std::nullopt;
}

void advise_cache(int, std::uint64_t, std::uint64_t, CacheAdvice) noexcept {}

std::optional<LeasedMap> LeasedMap::make(int, std::uint64_t, std::uint64_t) noexcept {
  return std::nullopt;
}

LeasedMap::LeasedMap(LeasedMap&& other) noexcept : leased_(std::move(other.leased_)) {}

LeasedMap::~LeasedMap() = default;

}  // namespace safetensors::os
