// Versions, status codes, errors, dtypes and texts in C.
#include <algorithm>
#include <string_view>

#include "c/support.h"

namespace {

using namespace safetensors;
using namespace safetensors::c;

// scripts/check-symbols compares the numbers in c.h with those of the C++ headers.
static_assert(SAFETENSORS_OK == static_cast<int>(Errc::ok));
static_assert(sizeof(safetensors_error) == 1040, "never changes: it lies in the caller's memory");

// The numbers in export.h must be the first part of the text there.
#define SAFETENSORS_TEXT_(x) #x
#define SAFETENSORS_TEXT(x) SAFETENSORS_TEXT_(x)
constexpr std::string_view kNumbers = SAFETENSORS_TEXT(SAFETENSORS_VERSION_MAJOR) "." SAFETENSORS_TEXT(
    SAFETENSORS_VERSION_MINOR) "." SAFETENSORS_TEXT(SAFETENSORS_VERSION_PATCH);
constexpr std::string_view kRelease = SAFETENSORS_VERSION_STRING;
static_assert(kRelease.substr(0, kRelease.find('+')) == kNumbers, "the versions in export.h differ");

Errc code_of(safetensors_status status) noexcept {
  return status >= 0 && status <= 0xFFFF ? static_cast<Errc>(status) : kUnknown;
}

// Copies the text and returns its length, as snprintf() does.
std::size_t give_text(std::string_view text, char* destination, std::size_t capacity) noexcept {
  if (destination) copy_text(text, destination, capacity, {});
  return text.size();
}

std::string_view held(const char* text, std::size_t capacity) noexcept {
  return {text, strnlen(text, capacity)};
}

}  // namespace

Error safetensors::c::error_of(safetensors_status status, const safetensors_error& filled) {
  return {.code = code_of(status),
          .os_error = filled.os_error,
          .offset = filled.offset,
          .path = std::string(held(filled.path, sizeof filled.path)),
          .message = std::string(held(filled.message, sizeof filled.message))};
}

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
  return base::caught_all([&] { return give_text(error_of(error->code, *error).to_string(), text, capacity); },
                          [&] { return give_text(message, text, capacity); });
}

size_t safetensors_printable(const char* text, size_t length, char* shown, size_t capacity) {
  if (!text) return give_text("", shown, capacity);
  const std::string_view given = Call().text(text, length, "text");
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
  const auto known = name ? parse_dtype(Call().text(name, length, "name")) : std::nullopt;
  return known ? static_cast<safetensors_dtype>(*known) : 0;
}

}  // extern "C"
