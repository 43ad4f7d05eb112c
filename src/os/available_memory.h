// The memory that this process may still use.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace safetensors::os {

// Returns the number of bytes that new memory and new pages of the page cache can take without swapping: the available
// memory of the machine, but at most the bytes that the control groups (cgroups, version 2) of this process leave.
// Pages of the page cache that the system can drop count as available. Returns nothing if the system does not tell.
// Reads files of /proc and /sys, which takes about 0.1 ms. Thread-safe. May throw std::bad_alloc.
[[nodiscard]] std::optional<std::uint64_t> available_memory();

namespace detail {

// The number of bytes behind "MemAvailable:" in the text of /proc/meminfo.
[[nodiscard]] std::optional<std::uint64_t> available_of(std::string_view meminfo) noexcept;

// The texts of the files of a control group. `limit` is a number of bytes, or "max".
struct GroupTexts {
  std::string_view limit;
  std::string_view usage;
  std::string_view statistics;
};
// The bytes that the group may still use. Nothing if it has no limit.
[[nodiscard]] std::optional<std::uint64_t> room_of(const GroupTexts& group) noexcept;

// The path of the group in the text of /proc/self/cgroup, such as "/user.slice". Nothing if the process has none.
[[nodiscard]] std::optional<std::string_view> group_of(std::string_view text) noexcept;

}  // namespace detail
}  // namespace safetensors::os
