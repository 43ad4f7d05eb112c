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

safetensors_status run(safetensors_error* out, void (*body)(const void* closure, Call& call),
                       const void* closure) noexcept {
  return base::caught_all(
      [&] {
        Call call;
        body(closure, call);
        return call.ok() ? report({}, out) : report(call.status().error(), out);
      },
      [&] { return report(base::out_of_memory(), out); });
}

std::optional<Dtype> known_dtype(safetensors_dtype number) noexcept {
  for (const Dtype dtype : all_dtypes())
    if (static_cast<safetensors_dtype>(dtype) == number) return dtype;
  return std::nullopt;
}

void write_struct(const void* from, void* to, std::size_t size) noexcept {
  const std::uint64_t given = size_of_struct(to);
  std::memcpy(to, from, size);
  std::memset(static_cast<unsigned char*>(to) + size, 0, static_cast<std::size_t>(given - size));
}

void Call::check(Status status) noexcept {
  if (ok()) status_ = std::move(status);
}

void Call::fail(Errc code, base::Text message) {
  check(make_error(code, message));
}

void Call::invalid(base::Text message) {
  fail(Errc::invalid_argument, message);
}

void Call::check_list(const void* pointer, std::size_t count, std::size_t size, const char* name) {
  if (!pointer && count != 0) invalid({"argument ", name, " is NULL, its length ", count});
  if (count > PTRDIFF_MAX / size) check(base::out_of_memory());
}

void Call::check_struct(const void* given, std::size_t size) {
  const std::uint64_t found = size_of_struct(given);
  if (found < size || found > kMaxStructSize)
    invalid({"struct_size is ", found, ", not from ", size, " to ", kMaxStructSize,
             " (initialize the struct with its INIT macro)"});
}

void Call::read_struct(const void* from, void* to, std::size_t size) {
  check_struct(from, size);
  const auto* bytes = static_cast<const unsigned char*>(from);
  for (std::uint64_t at = size; ok() && at < size_of_struct(from); ++at)
    if (bytes[at] != 0)
      fail(Errc::unsupported,
           {"an option at byte ", at, " of its struct is not known here, where it has ", size, " bytes"});
  if (ok()) std::memcpy(to, from, size);
}

void Call::require(const void* pointer, const char* name) {
  if (!pointer) invalid({"argument ", name, " is NULL"});
}

std::string_view Call::text(const char* pointer, std::size_t length, const char* name) {
  if (ok() && pointer && length == SAFETENSORS_NUL_TERMINATED) return pointer;
  const auto characters = list(pointer, length, name);
  return {characters.data(), characters.size()};
}

Dtype Call::dtype(safetensors_dtype number) {
  const std::optional<Dtype> known = known_dtype(number);
  if (!known) invalid({"unknown dtype ", number});
  return known.value_or(Dtype());
}

std::optional<Tensor> Call::tensor(const safetensors_model* model, const char* name, std::size_t name_length,
                                   const char* argument) {
  require(model, "model");
  const std::string_view wanted = text(name, name_length, argument);
  if (!ok()) return std::nullopt;
  Result<Tensor> found = std::visit([&](const auto& all) { return all.tensor(wanted); }, model->opened);
  if (found) return *std::move(found);
  check(std::move(found).error());
  return std::nullopt;
}

void Call::index(const char* what, std::uint64_t index, std::uint64_t count) {
  if (index >= count) fail(Errc::not_found, {"there is no ", what, " ", index, ", there are ", count});
}

void Call::reserved(std::uint32_t given) {
  if (given != 0) fail(Errc::unsupported, {"a reserved field is ", given, ", not 0"});
}

void Call::enumerator(const char* what, std::int32_t value, std::int32_t last) {
  if (value < 0 || value > last) invalid({"unknown ", what, " ", value});
}

}  // namespace safetensors::c
