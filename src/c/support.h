// Shared by all functions of the C interface: handles, checks of arguments, and a guard that stops every exception.
#pragma once

#include <safetensors/c.h>
#include <safetensors/checkpoint.h>
#include <safetensors/checkpoint_writer.h>
#include <safetensors/file.h>
#include <safetensors/read_plan.h>
#include <safetensors/writer.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/exceptions.h"

struct safetensors_buffer {
  safetensors::Serialized bytes;
};
struct safetensors_header {
  safetensors::Header header;
};
struct safetensors_header_builder {
  safetensors::HeaderBuilder builder;
};
struct safetensors_slice {
  safetensors::Slice slice;
};
struct safetensors_resolved_slice {
  std::shared_ptr<const safetensors::ResolvedSlice> slice;
};
struct safetensors_file {
  safetensors::File file;
};
struct safetensors_tensor {
  safetensors::Tensor tensor;
};
struct safetensors_array {
  safetensors::Array array;
};
struct safetensors_checkpoint {
  safetensors::Checkpoint checkpoint;
};
struct safetensors_read_plan {
  safetensors::ReadPlan plan;
};
struct safetensors_read_result {
  safetensors::ReadResult result;
};
struct safetensors_read_report {
  safetensors::ReadReport report;
};
struct safetensors_stream {
  safetensors::Stream stream;
  bool out_of_memory = false;  // a handle could not be allocated; every later call fails with this error
};
struct safetensors_writer {
  safetensors::Header header;
  safetensors::Writer writer;
};
struct safetensors_checkpoint_layout {
  safetensors::CheckpointLayout layout;
  std::string index_name;
};
struct safetensors_checkpoint_writer {
  safetensors::CheckpointLayout layout;  // also of a writer that was aborted
  safetensors::CheckpointWriter writer;
};

namespace safetensors::c {

// Fills the error of the caller, which may be NULL, and returns the status.
safetensors_status report(const Error& error, safetensors_error* out) noexcept;
safetensors_status report_success(safetensors_error* out) noexcept;
safetensors_status report_out_of_memory(safetensors_error* out) noexcept;

using base::make_error;
[[nodiscard]] Error invalid_argument(std::string message);
// Error not_found if the index is not below count.
[[nodiscard]] Error out_of_range(const char* what, std::uint64_t index, std::size_t count);

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
// Copies the bytes. Throws std::bad_alloc.
[[nodiscard]] safetensors_buffer* new_buffer(std::string_view bytes);
[[nodiscard]] Result<std::span<std::byte>> writable_bytes_of(void* destination, std::size_t size);
[[nodiscard]] Result<Dtype> dtype_of(safetensors_dtype number);

// Elements in the memory of an array.
struct Elements {
  const void* data;
  std::size_t count;
};
// Checks an array as safetensors_array_as() documents it.
[[nodiscard]] Result<Elements> elements_as(const Array& array, Dtype dtype);

// Moves a result into a new handle.
template <class Handle, class T>
[[nodiscard]] Status hand_out(Result<T> result, Handle** out) {
  if (!result) return std::move(result).error();
  *out = new Handle{*std::move(result)};
  return {};
}

// Copies elements to the caller as safetensors_header_shape documents it.
template <class T>
[[nodiscard]] Status copy_out(std::span<const T> items, T* destination, std::size_t capacity, std::size_t* count) {
  *count = items.size();
  if (capacity == 0) return {};
  if (capacity < items.size())
    return make_error(Errc::buffer_size, "destination too small: capacity " + std::to_string(capacity) +
                                             ", expected at least " + std::to_string(items.size()));
  if (!destination) return invalid_argument("the destination is NULL, its capacity " + std::to_string(capacity));
  std::copy(items.begin(), items.end(), destination);
  return {};
}

// Cuts text to the capacity, at a whole character, and ends it with NUL.
void copy_text(std::string_view text, char* destination, std::size_t capacity, std::string_view mark) noexcept;

// Copies a growing struct, and checks it as the top of c.h documents. minimum: size of the struct in ABI version 1.
[[nodiscard]] Status read_struct(const void* from, void* to, std::size_t size, std::size_t minimum);
[[nodiscard]] Status check_result_struct(const void* to, std::size_t minimum);
void write_struct(const void* from, void* to, std::size_t size) noexcept;

// Returns the growing struct of options that the caller gave, or all defaults if it is NULL.
template <class T>
[[nodiscard]] Result<T> options_of(const T* given, std::size_t minimum) {
  T options{};
  options.struct_size = sizeof(T);
  if (!given) return options;
  if (Status status = read_struct(given, &options, sizeof(T), minimum); !status) return std::move(status).error();
  return options;
}

// Copies a result to a growing struct that check_result_struct accepted.
template <class T>
void give_struct(T filled, T* to) noexcept {
  filled.struct_size = to->struct_size;
  write_struct(&filled, to, sizeof(T));
}

[[nodiscard]] Status check_reserved(std::uint32_t reserved);
// flags: bits SAFETENSORS_ACCEPT_... Error: unsupported, if there are other bits.
[[nodiscard]] Result<Accept> accept_of(std::uint32_t flags);
[[nodiscard]] Result<ParseOptions> parse_options_of(const safetensors_parse_options* given);
[[nodiscard]] ParseOptions parse_options_of(std::uint64_t max_header_bytes, std::uint32_t allow_leading_whitespace);
// ParseOptions::cancelled of options. If the struct ends before the end of `user`, it has no function.
template <class Given>
[[nodiscard]] safetensors::Callback<bool()> cancelled_of(const Given& given) {
  if (given.cancelled == nullptr || given.struct_size < offsetof(Given, user) + sizeof given.user) return {};
  return [cancelled = given.cancelled, user = given.user] { return cancelled(user) != 0; };
}
// For safetensors_open_options, and for structs that have the same fields.
template <class Given>
[[nodiscard]] Result<OpenOptions> open_options_of(const Given& given) {
  if (given.access < SAFETENSORS_ACCESS_AUTOMATIC || given.access > SAFETENSORS_ACCESS_READ)
    return invalid_argument("unknown access mode " + std::to_string(given.access));
  OpenOptions options{.access = static_cast<Access>(given.access),
                      .parse = parse_options_of(given.max_header_bytes, given.allow_leading_whitespace)};
  auto accept = accept_of(given.accept);
  if (!accept) return std::move(accept).error();
  options.parse.accept = *accept;
  options.parse.cancelled = cancelled_of(given);
  return options;
}
[[nodiscard]] Result<LayoutOptions> layout_options_of(const safetensors_layout_options* given);
[[nodiscard]] Result<WriteOptions> write_options_of(std::int32_t durability, std::uint32_t in_place_if_no_rename);

// Checks the struct and sets all members to the values that they have on failure.
[[nodiscard]] Status clear_info(safetensors_tensor_info* info);
[[nodiscard]] safetensors_tensor_info info_of(const TensorInfo& tensor) noexcept;

}  // namespace safetensors::c
