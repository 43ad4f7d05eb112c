// The page cache: the share of a file's bytes that it has, and advice about them.
#pragma once

#include <cstdint>
#include <optional>

namespace safetensors::os {

// Returns the share of [offset, offset + size) that is in the page cache, from 0 to 1. Returns nothing if the system
// does not tell. For a range of more than 32 MiB, the share is an estimate from samples.
[[nodiscard]] std::optional<double> cached_share(int descriptor, std::uint64_t offset, std::uint64_t size) noexcept;

// The way in which the program will read a range of a file.
enum class CacheAdvice : std::uint8_t {
  sequential,  // forward: the system doubles the read-ahead
  random,      // with gaps: the system does not read ahead
  will_need,   // soon: the system begins to read it
};
// Ignores errors. size 0: up to the end of the file.
void advise_cache(int descriptor, std::uint64_t offset, std::uint64_t size, CacheAdvice advice) noexcept;

namespace detail {
// The two methods, for ranges that are not large. count_cached() counts pages: with cachestat() (Linux 6.5), on
// overlayfs with mincore(). probe_cached() tries to read single bytes with RWF_NOWAIT.
[[nodiscard]] std::optional<double> count_cached(int descriptor, std::uint64_t offset, std::uint64_t size) noexcept;
[[nodiscard]] std::optional<double> probe_cached(int descriptor, std::uint64_t offset, std::uint64_t size) noexcept;
}  // namespace detail

}  // namespace safetensors::os
