// Versions, status codes, errors, dtypes and texts in C.
#include <algorithm>
#include <string_view>

#include "c/support.h"

namespace {

using namespace safetensors;
using namespace safetensors::c;

// scripts/check-symbols compares the numbers in c.h with those of the C++ headers.
static_assert(sizeof(safetensors_error) == 1040, "never changes: it lies in the caller's memory");

// Turns an unknown number into an unknown Errc.
Errc code_of(safetensors_status status) noexcept {
  return status >= 0 && status <= 0xFFFF ? static_cast<Errc>(status) : static_cast<Errc>(0xFFFF);
}

// Copies the text and returns its length, as snprintf() does.
std::size_t give_text(std::string_view text, char* destination, std::size_t capacity) noexcept {
  if (destination) copy_text(text, destination, capacity, {});
  return text.size();
}

std::string_view held(const char* text, std::size_t capacity) noexcept {
  return {text, strnlen(text, capacity)};
}

std::string_view given_text(const char* text, std::size_t length) noexcept {
  return {text, length == SAFETENSORS_NUL_TERMINATED ? std::strlen(text) : length};
}

}  // namespace

extern "C" {

uint32_t safetensors_abi_version(void) {
  return SAFETENSORS_ABI_VERSION;
}

const char* safetensors_version_string(void) {
  return SAFETENSORS_VERSION_STRING;
}

const char* safetensors_status_name(safetensors_status status) {
  return to_string(code_of(status));
}

size_t safetensors_error_text(const safetensors_error* error, char* text, size_t capacity) {
  if (!error) return give_text("", text, capacity);
  const std::string_view message = held(error->message, sizeof error->message);
  return base::caught_all(
      [&] {
        Error copy;
        copy.code = code_of(error->code);
        copy.os_error = error->os_error;
        copy.offset = error->offset;
        copy.message = message;
        copy.path = held(error->path, sizeof error->path);
        return give_text(copy.to_string(), text, capacity);
      },
      [&] { return give_text(message, text, capacity); });
}

size_t safetensors_printable(const char* text, size_t length, char* shown, size_t capacity) {
  if (!text) return give_text("", shown, capacity);
  const std::string_view given = given_text(text, length);
  const auto plain = [](char byte) { return byte < ' ' || byte > '~' || byte == '\\' ? '?' : byte; };
  return base::caught_all([&] { return give_text(printable(given), shown, capacity); },
                          [&] {
                            give_text(given, shown, capacity);
                            if (shown && capacity != 0) std::transform(shown, shown + std::strlen(shown), shown, plain);
                            return given.size();
                          });
}

const char* safetensors_dtype_name(safetensors_dtype dtype) {
  const auto known = known_dtype(dtype);
  return known ? to_string(*known).data() : nullptr;  // a literal
}

uint32_t safetensors_dtype_bits(safetensors_dtype dtype) {
  const auto known = known_dtype(dtype);
  return known ? bits(*known) : 0;
}

safetensors_dtype safetensors_dtype_parse(const char* name, size_t length) {
  const auto known = name ? parse_dtype(given_text(name, length)) : std::nullopt;
  return known ? static_cast<safetensors_dtype>(*known) : 0;
}

}  // extern "C"
