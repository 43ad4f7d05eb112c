// The calls for systems that lack pages that are provided in advance, the share of a file in the page cache, advice
// about it, leases, copies by the system, early writeback, files without a name, and names that differ only in the case
// of their letters. Each answer says that the system lacks it.
#include <cerrno>

#include "os/leased_map.h"
#include "os/memory.h"
#include "os/path.h"
#include "os/residency.h"
#include "os/system.h"
#include "os/system_error.h"

namespace safetensors::os {

std::ptrdiff_t copy_range(int, std::uint64_t, int, std::uint64_t, std::size_t) noexcept {
  return failed_with(EOPNOTSUPP);
}

int start_writeback(int) noexcept {
  return failed_with(EOPNOTSUPP);
}

int sync_file_system(int) noexcept {
  return failed_with(EOPNOTSUPP);
}

int link_at(int, int, const char*) noexcept {
  return failed_with(EOPNOTSUPP);
}

bool linkable(int) noexcept {
  return false;
}

void provide_untouched(std::span<std::byte>) noexcept {}

std::string name_key(std::string_view name) {
  std::string key(name);
  for (char& c : key) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return key;
}

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
