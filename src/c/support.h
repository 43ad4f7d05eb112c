// Shared by all functions of the C interface: handles, checks of arguments, and a guard that stops every exception.
#pragma once

#include <safetensors/c.h>
#include <safetensors/checkpoint.h>
#include <safetensors/file.h>
#include <safetensors/read_plan.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/exceptions.h"

// A file, or several files as one set. Exactly one of the two is there.
struct safetensors_model {
  explicit safetensors_model(safetensors::File opened) : file(std::move(opened)) {}
  explicit safetensors_model(safetensors::Checkpoint opened) : checkpoint(std::move(opened)) {}
  [[nodiscard]] safetensors::Tensors tensors() const { return file ? file->tensors() : checkpoint->tensors(); }
  [[nodiscard]] std::span<const safetensors::File> files() const {
    return file ? std::span<const safetensors::File>(&*file, 1)
                : std::span<const safetensors::File>(checkpoint->files());
  }
  [[nodiscard]] safetensors::Result<safetensors::Tensor> tensor(std::string_view name) const {
    return file ? file->tensor(name) : checkpoint->tensor(name);
  }

  std::optional<safetensors::File> file;
  std::optional<safetensors::Checkpoint> checkpoint;
};
struct safetensors_array {
  safetensors::Array array;
};

namespace safetensors::c {

// Fills the error of the caller, which may be NULL, and returns the status.
safetensors_status report(const Error& error, safetensors_error* out) noexcept;
safetensors_status report_success(safetensors_error* out) noexcept;
safetensors_status report_out_of_memory(safetensors_error* out) noexcept;

using base::make_error;
[[nodiscard]] Error invalid_argument(std::string message);
// Error not_found if the index is not below count.
[[nodiscard]] Status check_index(const char* what, std::uint64_t index, std::uint64_t count);

// Runs body, which returns a Status. Reports this Status or the exception that body throws.
template <class Body>
safetensors_status guarded(safetensors_error* out, Body&& body) noexcept {
  return base::caught_all(
      [&] {
        const Status status = std::forward<Body>(body)();
        return status ? report_success(out) : report(status.error(), out);
      },
      [&] { return report_out_of_memory(out); });  // bad_alloc, and length_error for a count that no memory could hold
}

// Sets results to the values that they have on failure. Call this before all checks.
template <class... T>
void clear(T*... results) noexcept {
  ((results ? static_cast<void>(*results = T{}) : static_cast<void>(0)), ...);
}

struct Required {
  bool given;
  const char* name;
  template <class T>
  Required(T* pointer, const char* argument) noexcept : given(pointer != nullptr), name(argument) {}
};

// Error invalid_argument for the first pointer that is NULL.
[[nodiscard]] Status require(std::initializer_list<Required> arguments);

// An array of count elements. The pointer may be NULL only if count is 0.
template <class T>
[[nodiscard]] Result<std::span<const T>> list_of(const T* pointer, std::size_t count, const char* name) {
  if (!pointer && count != 0)
    return invalid_argument(std::string("argument ") + name + " is NULL, its length " + std::to_string(count));
  return std::span<const T>(pointer, count);
}

[[nodiscard]] Result<std::string_view> text_of(const char* pointer, std::size_t length, const char* name);
[[nodiscard]] Result<std::span<const std::byte>> bytes_of(const void* pointer, std::size_t size, const char* name);
[[nodiscard]] Result<Dtype> dtype_of(safetensors_dtype number);
[[nodiscard]] Result<Slice> slice_of(const safetensors_dim* dims, std::size_t count);
// The tensor with this name in a model that may be NULL. argument: the parameter that has the name.
[[nodiscard]] Result<Tensor> tensor_of(const safetensors_model* model, const char* name, std::size_t name_length,
                                       const char* argument = "name");
// Error unsupported, unless the reserved member is 0.
[[nodiscard]] Status check_reserved(std::uint32_t reserved);
// A member that is an enum with the values 0 to `last`.
[[nodiscard]] Status check_enum(const char* what, std::int32_t value, std::int32_t last);

// Moves a result into a new handle.
template <class Handle, class T>
[[nodiscard]] Status hand_out(Result<T> result, Handle** out) {
  if (!result) return std::move(result).error();
  *out = new Handle{*std::move(result)};
  return {};
}

// Cuts text to the capacity, at a whole character, and ends it with NUL.
void copy_text(std::string_view text, char* destination, std::size_t capacity, std::string_view mark) noexcept;

// Copies a growing struct, and checks it as the top of c.h documents. size: that of the struct in ABI version 1.
[[nodiscard]] Status read_struct(const void* from, void* to, std::size_t size);
[[nodiscard]] Status check_result_struct(const void* to, std::size_t size);
void write_struct(const void* from, void* to, std::size_t size) noexcept;

// Returns the growing struct of options that the caller gave, or all defaults if it is NULL.
template <class T>
[[nodiscard]] Result<T> options_of(const T* given) {
  T options{};
  options.struct_size = sizeof(T);
  if (!given) return options;
  if (Status status = read_struct(given, &options, sizeof(T)); !status) return std::move(status).error();
  return options;
}

// Copies a result to a growing struct that begin_struct() accepted.
template <class T>
void give_struct(T filled, T* to) noexcept {
  filled.struct_size = to->struct_size;
  write_struct(&filled, to, sizeof(T));
}

// Checks the struct for a result, and sets all its members to the values that they have on failure.
template <class T>
[[nodiscard]] Status begin_struct(T* to, const char* name) {
  if (Status status = require({{to, name}}); !status) return status;
  if (Status status = check_result_struct(to, sizeof(T)); !status) return status;
  give_struct(T{}, to);
  return {};
}

// A callback of the caller, or none. Its result is true as long as it returns 0.
[[nodiscard]] inline Callback<bool(std::uint64_t, std::uint64_t)> progress_of(
    std::int32_t (*progress)(void* user, std::uint64_t completed, std::uint64_t total), void* user) {
  if (!progress) return nullptr;
  return
      [progress, user](std::uint64_t completed, std::uint64_t total) { return progress(user, completed, total) == 0; };
}

}  // namespace safetensors::c
