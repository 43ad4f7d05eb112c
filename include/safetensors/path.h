/// @file
/// Defines PathView, the type of parameters that are paths.
///
/// Thread-safety: a PathView is a value. Threads may read one at the same time.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace safetensors {
inline namespace v0 {

/// A path in a file system, as the type of a parameter. You can pass text or a `std::filesystem::path`.
///
/// A PathView does not own the text. The text must stay valid as long as the PathView is in use. For a parameter, that
/// is until the call returns.
class PathView {
 public:
  /// @{
  /// Refers to the text of the caller.
  template <class Text, std::enable_if_t<std::is_convertible_v<const Text&, std::string_view>, int> = 0>
  PathView(const Text& text) noexcept : text_(text) {}  // NOLINT(google-explicit-constructor)
  template <class Path, std::enable_if_t<
                            !std::is_convertible_v<const Path&, std::string_view> &&
                                std::is_convertible_v<decltype(std::declval<const Path&>().native()), std::string_view>,
                            int> = 0>
  PathView(const Path& path) noexcept : text_(path.native()) {}  // NOLINT(google-explicit-constructor)
#ifdef _WIN32
  // Converts UTF-16 to UTF-8.
  template <class Path,
            std::enable_if_t<std::is_convertible_v<decltype(std::declval<const Path&>().native()), std::wstring_view>,
                             char> = 0>
  PathView(const Path& path) {  // NOLINT(google-explicit-constructor)
    const auto text = path.u8string();
    converted_.assign(text.begin(), text.end());
  }
#endif
  /// @}

  /// Returns the text, which belongs to the caller.
  operator std::string_view() const noexcept {  // NOLINT(google-explicit-constructor)
#ifdef _WIN32
    if (!converted_.empty()) return converted_;
#endif
    return text_;
  }

 private:
  std::string_view text_;
#ifdef _WIN32
  std::string converted_;
#endif
};

}  // namespace v0
}  // namespace safetensors
