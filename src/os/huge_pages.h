// Finds out whether huge pages are available. The system call that requests them also succeeds on a system without huge
// pages.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace safetensors::os {

// Returns whether the system may give huge pages for memory that this process maps now with MADV_HUGEPAGE. Reads the
// settings of the system once. Asks for the flag of the process (PR_SET_THP_DISABLE, which a parent process can set
// too) every time. Thread-safe.
[[nodiscard]] bool huge_pages_given() noexcept;

// Requests huge pages for whole anonymous pages. Returns false if they are unavailable.
[[nodiscard]] bool request_huge_pages(std::span<std::byte> pages) noexcept;

namespace detail {

// Decides by the texts of two files: transparent_hugepage/enabled, and hugepages-2048kB/enabled for pages of kHugePage
// bytes, which older systems do not have. The word in brackets counts. An empty text forbids nothing.
[[nodiscard]] bool allows_huge_pages(std::string_view enabled, std::string_view enabled_for_size) noexcept;

}  // namespace detail
}  // namespace safetensors::os
