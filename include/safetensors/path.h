/// @file
/// A path in a file system, as a parameter.
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

namespace safetensors {
inline namespace v0 {

/// A path as a parameter: text, or a `std::filesystem::path`. It does not own the text.
class PathView {
 public:
  /// Makes an empty path.
  constexpr PathView() noexcept = default;
  /// @{
  /// Takes the text of the caller. It must stay valid during the call.
  template <class Text>
  requires std::is_convertible_v<const Text&, std::string_view>
  constexpr PathView(const Text& text) noexcept : text_(text) {}  // NOLINT(google-explicit-constructor)
  template <class Path>
  requires(!std::is_convertible_v<const Path&, std::string_view>) && requires(const Path& path) {
    { path.native() } -> std::convertible_to<std::string_view>;
  }
  PathView(const Path& path) noexcept : text_(path.native()) {}  // NOLINT(google-explicit-constructor)
  /// @}

  /// Returns the text.
  constexpr operator std::string_view() const noexcept { return text_; }  // NOLINT(google-explicit-constructor)

 private:
  std::string_view text_;
};

}  // namespace v0
}  // namespace safetensors
