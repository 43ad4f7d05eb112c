/// @file
/// Defines Callback, the type of options that are functions.
///
/// Thread-safety: a Callback is a value. Threads may call one at the same time if its function allows that.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace safetensors {
inline namespace v0 {

template <class Signature>
class Callback;

namespace detail {
// Stops at the first part that is false: the third part needs a complete Callback.
template <class Held, class Callback, class Return, class... Parameters>
inline constexpr bool kIsFunctionFor =
    std::conjunction_v<std::negation<std::is_same<Held, Callback>>, std::negation<std::is_member_pointer<Held>>,
                       std::is_invocable_r<Return, Held&, Parameters...>>;
}  // namespace detail

/// Holds a function of the caller, or none. It takes functions, lambdas and std::function. Use it like std::function,
/// but copies share one function with its state. It does not take pointers to members.
///
/// It exists because the header `functional` makes every file that includes it slow to compile.
template <class Return, class... Parameters>
class Callback<Return(Parameters...)> {
 public:
  /// @{
  /// Makes a Callback without a function.
  Callback() noexcept = default;
  Callback(std::nullptr_t) noexcept {}  // NOLINT(google-explicit-constructor)
  /// @}
  /// Takes a function. A null pointer to a function and an empty std::function make a Callback without a function. The
  /// constructor may throw `std::bad_alloc`, and what the copy of the function throws.
  template <class Function,
            std::enable_if_t<detail::kIsFunctionFor<Function, Callback, Return, Parameters...>, int> = 0>
  Callback(Function function) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::is_pointer_v<Function>) {
      if (function == nullptr) return;
    } else if constexpr (std::is_convertible_v<std::nullptr_t, Function> &&
                         std::is_constructible_v<bool, const Function&>) {
      // Types that can be empty, such as std::function. Another type may have a bool with another meaning.
      if (!static_cast<bool>(std::as_const(function))) return;
    }
    held_ = std::make_shared<Function>(std::move(function));
    call_ = [](void* held, Parameters&&... parameters) -> Return {
      return static_cast<Return>((*static_cast<Function*>(held))(std::forward<Parameters>(parameters)...));
    };
  }

  /// Returns true if there is a function.
  explicit operator bool() const noexcept { return held_ != nullptr; }
  /// Calls the function. There must be one.
  Return operator()(Parameters... parameters) const {
    return call_(held_.get(), std::forward<Parameters>(parameters)...);
  }

 private:
  std::shared_ptr<void> held_;
  Return (*call_)(void* held, Parameters&&... parameters) = nullptr;
};

}  // namespace v0
}  // namespace safetensors
