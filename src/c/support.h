// Shared by all functions of the C interface: handles, checks of arguments, and a guard that stops every exception.
#pragma once

#include <safetensors/c.h>
#include <safetensors/checkpoint.h>
#include <safetensors/file.h>
#include <safetensors/read_plan.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/exceptions.h"

// A file, or several files as one set.
struct safetensors_model {
  [[nodiscard]] const safetensors::Checkpoint* checkpoint() const {
    return std::get_if<safetensors::Checkpoint>(&opened);
  }
  [[nodiscard]] safetensors::Tensors tensors() const {
    return std::visit([](const auto& one) { return one.tensors(); }, opened);
  }
  [[nodiscard]] std::span<const safetensors::File> files() const {
    if (checkpoint()) return checkpoint()->files();
    return {std::get_if<safetensors::File>(&opened), 1};
  }

  std::variant<safetensors::File, safetensors::Checkpoint> opened;
};
struct safetensors_array {
  safetensors::Array array;
};

namespace safetensors::c {

using base::make_error;

// Fills the error of the caller, which may be NULL, and returns the status. An empty Error is a success.
safetensors_status report(const Error& error, safetensors_error* out) noexcept;

inline constexpr Errc kUnknown{0xFFFF};  // stands for all numbers that are no Errc

// The Error that the caller filled, with the code of this status. May throw std::bad_alloc.
[[nodiscard]] Error error_of(safetensors_status status, const safetensors_error& filled);

// Copies text to the capacity, cut at a whole character, and ends it with NUL.
void copy_text(std::string_view text, char* destination, std::size_t capacity, std::string_view mark) noexcept;

// The dtype of the format with this number.
[[nodiscard]] std::optional<Dtype> known_dtype(safetensors_dtype number) noexcept;

// Writes a result to a growing struct. Its unknown part becomes 0.
void write_struct(const void* from, void* to, std::size_t size) noexcept;
template <class T>
void give_struct(T filled, T* to) noexcept {
  filled.struct_size = to->struct_size;
  write_struct(&filled, to, sizeof(T));
}

// One call of the C interface. Each function checks or takes an argument. The first error stays. After an error, the
// values that these functions return are safe, but mean nothing: test ok() before you compute with them.
class Call {
 public:
  [[nodiscard]] bool ok() const noexcept { return status_.ok(); }
  [[nodiscard]] const Status& status() const noexcept { return status_; }

  void check(Status status) noexcept;
  void fail(Error error) noexcept { check(std::move(error)); }
  void fail(Errc code, base::Text message);
  void invalid(base::Text message);
  template <class T>
  [[nodiscard]] T value(Result<T> result) {
    if (result) return *std::move(result);
    check(std::move(result).error());
    return T();
  }

  // An argument that must not be NULL.
  void require(const void* pointer, const char* name);
  // A result that may be NULL, or must not be. Call this before all checks, because a result is empty after a failure.
  template <class T>
  static void clear(T* result) noexcept {
    if (result) *result = T{};
  }
  template <class T>
  void result(T* result, const char* name) {
    clear(result);
    require(result, name);
  }
  // A growing struct for a result: sets all its members to the values that they have on failure.
  template <class T>
  void result_struct(T* to, const char* name) {
    require(to, name);
    if (ok()) check_struct(to, sizeof(T));
    if (ok()) give_struct(T{}, to);
  }
  // The growing struct of options that the caller gave, or all defaults if it is NULL.
  template <class T>
  [[nodiscard]] T options(const T* given) {
    T options{};
    options.struct_size = sizeof(T);
    if (given && ok()) read_struct(given, &options, sizeof(T));
    return options;
  }

  // `count` elements. The pointer may be NULL only if count is 0.
  template <class T>
  [[nodiscard]] std::span<T> list(T* pointer, std::size_t count, const char* name) {
    check_list(pointer, count, sizeof(T), name);
    return ok() ? std::span<T>(pointer, count) : std::span<T>();
  }
  [[nodiscard]] Span<const std::byte> bytes(const void* pointer, std::size_t size, const char* name) {
    return list(static_cast<const std::byte*>(pointer), size, name);
  }
  [[nodiscard]] std::string_view text(const char* pointer, std::size_t length, const char* name);
  [[nodiscard]] Dtype dtype(safetensors_dtype number);
  [[nodiscard]] Slice slice(const safetensors_dim* dims, std::size_t count);
  // The tensor with this name. argument: the parameter that has the name.
  [[nodiscard]] std::optional<Tensor> tensor(const safetensors_model* model, const char* name, std::size_t name_length,
                                             const char* argument = "name");
  // An index below `count`.
  void index(const char* what, std::uint64_t index, std::uint64_t count);
  // A reserved member: 0.
  void reserved(std::uint32_t given);
  // A member that is an enum with the values 0 to `last`.
  void enumerator(const char* what, std::int32_t value, std::int32_t last);

  // Moves a result into a new handle.
  template <class Handle, class T>
  void give(Result<T> result, Handle** out) {
    if (!result) return check(std::move(result).error());
    *out = new Handle{*std::move(result)};
  }

 private:
  void check_list(const void* pointer, std::size_t count, std::size_t size, const char* name);
  void check_struct(const void* given, std::size_t size);
  void read_struct(const void* from, void* to, std::size_t size);

  Status status_;
};

// Runs body(closure, call) with a Call, and reports its error or the exception that body throws: bad_alloc, or
// length_error for a count that no memory could hold.
safetensors_status run(safetensors_error* out, void (*body)(const void* closure, Call& call),
                       const void* closure) noexcept;

// Runs body(call) in the same way.
template <class Body>
safetensors_status guarded(safetensors_error* out, const Body& body) noexcept {
  return run(
      out, [](const void* closure, Call& call) { (*static_cast<const Body*>(closure))(call); }, &body);
}

// A callback of the caller, or none. Its result is true as long as it returns 0.
[[nodiscard]] inline Callback<bool(std::uint64_t, std::uint64_t)> progress_of(
    std::int32_t (*progress)(void* user, std::uint64_t completed, std::uint64_t total), void* user) {
  if (!progress) return nullptr;
  return
      [progress, user](std::uint64_t completed, std::uint64_t total) { return progress(user, completed, total) == 0; };
}

}  // namespace safetensors::c
