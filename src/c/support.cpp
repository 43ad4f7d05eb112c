// Checks of arguments and of growing structs, for all functions of the C interface.
#include "c/support.h"

#include <algorithm>

namespace safetensors::c {
namespace {

constexpr std::string_view kCut = "...";

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

std::uint64_t size_of_struct(const void* data) noexcept {
  std::uint64_t size = 0;
  std::memcpy(&size, data, sizeof size);
  return size;
}

// If struct_size is larger, the caller never set it. Then the struct is neither read nor written.
constexpr std::uint64_t kMaxStructSize = 4096;

Error wrong_size(std::uint64_t size, std::size_t minimum) {
  return invalid_argument("struct_size is " + std::to_string(size) + ", not from " + std::to_string(minimum) + " to " +
                          std::to_string(kMaxStructSize) + " (initialize the struct with its INIT macro)");
}

}  // namespace

void copy_text(std::string_view text, char* destination, std::size_t capacity, std::string_view mark) noexcept {
  if (capacity == 0) return;
  if (capacity <= mark.size()) mark = {};
  const bool cut = text.size() >= capacity;
  std::size_t length = cut ? capacity - 1 - mark.size() : text.size();
  if (cut)
    while (length > 0 && is_continuation(text[length])) --length;
  std::copy_n(text.data(), length, destination);
  if (cut) std::copy_n(mark.data(), mark.size(), destination + length), length += mark.size();
  destination[length] = '\0';
}

safetensors_status report(const Error& error, safetensors_error* out) noexcept {
  const auto status = static_cast<safetensors_status>(error.code);
  if (!out) return status;
  out->code = status;
  out->os_error = error.os_error;
  out->offset = error.offset;
  copy_text(error.message, out->message, sizeof out->message, kCut);
  copy_text(error.path, out->path, sizeof out->path, kCut);
  return status;
}

safetensors_status report_success(safetensors_error* out) noexcept {
  if (out) {
    out->code = SAFETENSORS_OK;
    out->os_error = 0;
    out->offset = SAFETENSORS_NO_OFFSET;
    out->message[0] = out->path[0] = '\0';
  }
  return SAFETENSORS_OK;
}

safetensors_status report_out_of_memory(safetensors_error* out) noexcept {
  report_success(out);
  if (out) {
    out->code = SAFETENSORS_ERROR_OUT_OF_MEMORY;
    copy_text("out of memory", out->message, sizeof out->message, kCut);
  }
  return SAFETENSORS_ERROR_OUT_OF_MEMORY;
}

Error invalid_argument(std::string message) {
  return make_error(Errc::invalid_argument, std::move(message));
}

Status check_index(const char* what, std::uint64_t index, std::uint64_t count) {
  if (index < count) return {};
  return make_error(Errc::not_found, std::string("there is no ") + what + " " + std::to_string(index) + ", there are " +
                                         std::to_string(count));
}

Status require(std::initializer_list<Required> arguments) {
  for (const Required& argument : arguments)
    if (!argument.given) return invalid_argument(std::string("argument ") + argument.name + " is NULL");
  return {};
}

Result<std::string_view> text_of(const char* pointer, std::size_t length, const char* name) {
  if (pointer && length == SAFETENSORS_NUL_TERMINATED) return std::string_view(pointer);
  auto list = list_of(pointer, length, name);
  if (!list) return std::move(list).error();
  return std::string_view(list->data(), list->size());
}

Result<std::span<const std::byte>> bytes_of(const void* pointer, std::size_t size, const char* name) {
  return list_of(static_cast<const std::byte*>(pointer), size, name);
}

Result<Dtype> dtype_of(safetensors_dtype number) {
  for (const Dtype dtype : all_dtypes())
    if (static_cast<safetensors_dtype>(dtype) == number) return dtype;
  return invalid_argument("unknown dtype " + std::to_string(number));
}

Result<Tensor> tensor_of(const safetensors_model* model, const char* name, std::size_t name_length,
                         const char* argument) {
  if (Status status = require({{model, "model"}}); !status) return std::move(status).error();
  auto text = text_of(name, name_length, argument);
  if (!text) return std::move(text).error();
  return model->tensor(*text);
}

Status read_struct(const void* from, void* to, std::size_t size) {
  const std::uint64_t given = size_of_struct(from);
  if (given < size || given > kMaxStructSize) return wrong_size(given, size);
  const auto* bytes = static_cast<const unsigned char*>(from);
  for (std::uint64_t at = size; at < given; ++at)
    if (bytes[at] != 0)
      return make_error(Errc::unsupported, "an option at byte " + std::to_string(at) +
                                               " of its struct is not known here, where it has " +
                                               std::to_string(size) + " bytes");
  std::memcpy(to, from, size);
  return {};
}

Status check_result_struct(const void* to, std::size_t size) {
  const std::uint64_t given = size_of_struct(to);
  if (given < size || given > kMaxStructSize) return wrong_size(given, size);
  return {};
}

void write_struct(const void* from, void* to, std::size_t size) noexcept {
  const std::uint64_t given = size_of_struct(to);
  std::memcpy(to, from, size);
  std::memset(static_cast<unsigned char*>(to) + size, 0, static_cast<std::size_t>(given - size));
}

Status check_reserved(std::uint32_t reserved) {
  if (reserved == 0) return {};
  return make_error(Errc::unsupported, "a reserved field is " + std::to_string(reserved) + ", not 0");
}

Status check_enum(const char* what, std::int32_t value, std::int32_t last) {
  if (value >= 0 && value <= last) return {};
  return invalid_argument(std::string("unknown ") + what + " " + std::to_string(value));
}

}  // namespace safetensors::c
