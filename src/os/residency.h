// Whether a file's bytes are in the page cache.
#pragma once

#include <cstdint>
#include <optional>

namespace safetensors::os {

// The share of [offset, offset + size) that is in the page cache, 0 to 1; none if the system does not tell. Of a large
// range some parts are asked for.
[[nodiscard]] std::optional<double> cached_share(int descriptor, std::uint64_t offset, std::uint64_t size) noexcept;

namespace detail {
// The two ways of asking, each for a range that is not large: cachestat (Linux 6.5) counts pages, RWF_NOWAIT tries to
// read a byte here and there.
[[nodiscard]] std::optional<double> count_cached(int descriptor, std::uint64_t offset, std::uint64_t size) noexcept;
[[nodiscard]] std::optional<double> probe_cached(int descriptor, std::uint64_t offset, std::uint64_t size) noexcept;
}  // namespace detail

}  // namespace safetensors::os
