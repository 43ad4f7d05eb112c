/// @file
/// Defines Callback, the type of options that are functions.
///
/// Thread-safety: a Callback is a value. Threads may call one at the same time if its function allows that.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace safetensors {
inline namespace v0 {

template <class Signature>
class Callback;

namespace detail {
// A concept, because && stops at the first part that is false: the second part needs a complete Callback.
template <class Held, class Callback, class Return, class... Parameters>
concept FunctionFor = !std::is_same_v<Held, Callback> && std::is_copy_constructible_v<Held> &&
                      std::is_invocable_r_v<Return, Held&, Parameters...>;
}  // namespace detail

/// A function of the caller with this signature, or none: a function, a lambda, a std::function.
///
/// It owns a copy of the function. So it is what std::function is, without the header <functional>, which makes every
/// file that includes it slow to compile.
template <class Return, class... Parameters>
class Callback<Return(Parameters...)> {
 public:
  /// @{
  /// Makes a Callback without a function.
  Callback() noexcept = default;
  Callback(std::nullptr_t) noexcept {}  // NOLINT(google-explicit-constructor)
  /// @}
  /// Takes a copy of a function. A null pointer to a function and an empty std::function make a Callback without a
  /// function. May throw what the copy throws, and `std::bad_alloc`.
  template <class Function>
  Callback(Function&& function)  // NOLINT(google-explicit-constructor)
      requires detail::FunctionFor<std::decay_t<Function>, Callback, Return, Parameters...> {
    using Held = std::decay_t<Function>;
    if constexpr (std::is_pointer_v<Held>) {
      const Held pointer = function;
      if (pointer == nullptr) return;
    } else if constexpr (requires { function.operator bool(); }) {
      if (!function.operator bool()) return;
    }
    held_ = new Held(std::forward<Function>(function));
    functions_ = &kFunctions<Held>;
  }
  /// Copies the function. May throw what the copy throws, and `std::bad_alloc`.
  Callback(const Callback& other)
      : held_(other.held_ == nullptr ? nullptr : other.functions_->copy(other.held_)), functions_(other.functions_) {}
  /// Takes the function of `other`, which has none after that.
  Callback(Callback&& other) noexcept : held_(std::exchange(other.held_, nullptr)), functions_(other.functions_) {}
  /// Takes the function of `other`.
  Callback& operator=(Callback other) noexcept {
    std::swap(held_, other.held_);
    std::swap(functions_, other.functions_);
    return *this;
  }
  ~Callback() {
    if (held_ != nullptr) functions_->destroy(held_);
  }

  /// Returns true if there is a function.
  explicit operator bool() const noexcept { return held_ != nullptr; }
  /// Calls the function. There must be one.
  Return operator()(Parameters... parameters) const {
    return functions_->call(held_, std::forward<Parameters>(parameters)...);
  }

 private:
  struct Functions {
    Return (*call)(void* held, Parameters&&... parameters);
    void* (*copy)(const void* held);
    void (*destroy)(void* held);
  };
  template <class Held>
  static constexpr Functions kFunctions = {
      [](void* held, Parameters&&... parameters) -> Return {
        return static_cast<Return>((*static_cast<Held*>(held))(std::forward<Parameters>(parameters)...));
      },
      [](const void* held) -> void* { return new Held(*static_cast<const Held*>(held)); },
      [](void* held) { delete static_cast<Held*>(held); },
  };

  void* held_ = nullptr;
  const Functions* functions_ = nullptr;
};

}  // namespace v0
}  // namespace safetensors
