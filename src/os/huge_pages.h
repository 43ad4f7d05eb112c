// Whether huge pages are to be had. The call that wishes for them succeeds also where the system gives none.
#pragma once

#include <string_view>

namespace safetensors::os {

// Whether memory that this process maps now, and wishes huge pages for, may be given some. What the system's settings
// say is read once; what was asked for the process (PR_SET_THP_DISABLE, also by who started it) each time.
[[nodiscard]] bool huge_pages_given() noexcept;

namespace detail {

// By the texts of transparent_hugepage/enabled and of the same for pages of kHugePage bytes, where there is one: the
// word in brackets counts. What says nothing forbids nothing.
[[nodiscard]] bool allows_huge_pages(std::string_view enabled, std::string_view enabled_for_size) noexcept;

}  // namespace detail
}  // namespace safetensors::os
