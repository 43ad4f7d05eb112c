// Versions, status codes, errors, dtypes and texts in C.
#include <algorithm>
#include <string_view>

#include "c/support.h"

namespace {

// The numbers in export.h must be the first part of the text there. A test compares the text with the file VERSION.
#define SAFETENSORS_TEXT_(x) #x
#define SAFETENSORS_TEXT(x) SAFETENSORS_TEXT_(x)
constexpr std::string_view kNumbers = SAFETENSORS_TEXT(SAFETENSORS_VERSION_MAJOR) "." SAFETENSORS_TEXT(
    SAFETENSORS_VERSION_MINOR) "." SAFETENSORS_TEXT(SAFETENSORS_VERSION_PATCH);
constexpr std::string_view kRelease = SAFETENSORS_VERSION_STRING;
static_assert(kRelease.substr(0, kRelease.find('+')) == kNumbers, "the versions in export.h differ");

using safetensors::Errc;
using safetensors::Error;
using namespace safetensors::c;

#define SAFETENSORS_SAME(c_name, cpp_name) static_assert(SAFETENSORS_ERROR_##c_name == static_cast<int>(Errc::cpp_name))
static_assert(SAFETENSORS_OK == static_cast<int>(Errc::ok));
SAFETENSORS_SAME(HEADER_TOO_SMALL, header_too_small);
SAFETENSORS_SAME(HEADER_TOO_LARGE, header_too_large);
SAFETENSORS_SAME(INVALID_HEADER_LENGTH, invalid_header_length);
SAFETENSORS_SAME(INVALID_UTF8, invalid_utf8);
SAFETENSORS_SAME(JSON_SYNTAX, json_syntax);
SAFETENSORS_SAME(JSON_LEADING_WHITESPACE, json_leading_whitespace);
SAFETENSORS_SAME(JSON_DEPTH, json_depth);
SAFETENSORS_SAME(JSON_NUMBER, json_number);
SAFETENSORS_SAME(JSON_TYPE, json_type);
SAFETENSORS_SAME(JSON_INTEGER, json_integer);
SAFETENSORS_SAME(UNKNOWN_DTYPE, unknown_dtype);
SAFETENSORS_SAME(MISSING_FIELD, missing_field);
SAFETENSORS_SAME(DUPLICATE_KEY, duplicate_key);
SAFETENSORS_SAME(INVALID_OFFSET, invalid_offset);
SAFETENSORS_SAME(SIZE_OVERFLOW, size_overflow);
SAFETENSORS_SAME(MISALIGNED_SIZE, misaligned_size);
SAFETENSORS_SAME(SIZE_MISMATCH, size_mismatch);
SAFETENSORS_SAME(INCOMPLETE_DATA, incomplete_data);
SAFETENSORS_SAME(INVALID_INDEX, invalid_index);
SAFETENSORS_SAME(AMBIGUOUS_CHECKPOINT, ambiguous_checkpoint);
SAFETENSORS_SAME(RESERVED_NAME, reserved_name);
SAFETENSORS_SAME(DUPLICATE_NAME, duplicate_name);
SAFETENSORS_SAME(DATA_LENGTH, data_length);
SAFETENSORS_SAME(INVALID_ALIGNMENT, invalid_alignment);
SAFETENSORS_SAME(OVERLAPPING_WRITE, overlapping_write);
SAFETENSORS_SAME(INCOMPLETE_WRITE, incomplete_write);
SAFETENSORS_SAME(WRITER_CLOSED, writer_closed);
SAFETENSORS_SAME(INVALID_ARGUMENT, invalid_argument);
SAFETENSORS_SAME(NOT_FOUND, not_found);
SAFETENSORS_SAME(DTYPE_MISMATCH, dtype_mismatch);
SAFETENSORS_SAME(MISALIGNED_MEMORY, misaligned_memory);
SAFETENSORS_SAME(BUFFER_SIZE, buffer_size);
SAFETENSORS_SAME(NOT_WRITABLE, not_writable);
SAFETENSORS_SAME(SHAPE_MISMATCH, shape_mismatch);
SAFETENSORS_SAME(OVERLAPPING_DESTINATION, overlapping_destination);
SAFETENSORS_SAME(VALUE_OUT_OF_RANGE, value_out_of_range);
SAFETENSORS_SAME(SLICE_INDEX, slice_index);
SAFETENSORS_SAME(SLICE_STEP, slice_step);
SAFETENSORS_SAME(SLICE_RANK, slice_rank);
SAFETENSORS_SAME(SLICE_BITS, slice_bits);
SAFETENSORS_SAME(SLICE_SYNTAX, slice_syntax);
SAFETENSORS_SAME(SLICE_NOT_CONTIGUOUS, slice_not_contiguous);
SAFETENSORS_SAME(OUT_OF_MEMORY, out_of_memory);
SAFETENSORS_SAME(OPEN_FAILED, open_failed);
SAFETENSORS_SAME(NOT_REGULAR_FILE, not_regular_file);
SAFETENSORS_SAME(READ_FAILED, read_failed);
SAFETENSORS_SAME(WRITE_FAILED, write_failed);
SAFETENSORS_SAME(SYNC_FAILED, sync_failed);
SAFETENSORS_SAME(REPLACE_FAILED, replace_failed);
SAFETENSORS_SAME(REPLACED_NOT_DURABLE, replaced_not_durable);
SAFETENSORS_SAME(FILE_TRUNCATED, file_truncated);
SAFETENSORS_SAME(FILE_CHANGED, file_changed);
SAFETENSORS_SAME(MAP_FAILED, map_failed);
SAFETENSORS_SAME(UNSUPPORTED, unsupported);
SAFETENSORS_SAME(DEVICE_FAILED, device_failed);
SAFETENSORS_SAME(HEADER_DOES_NOT_FIT, header_does_not_fit);
SAFETENSORS_SAME(CANCELLED, cancelled);
#undef SAFETENSORS_SAME

static_assert(SAFETENSORS_DTYPE_BOOL == static_cast<int>(safetensors::Dtype::BOOL));
static_assert(SAFETENSORS_DTYPE_U8 == static_cast<int>(safetensors::Dtype::U8));
static_assert(SAFETENSORS_DTYPE_I8 == static_cast<int>(safetensors::Dtype::I8));
static_assert(SAFETENSORS_DTYPE_I16 == static_cast<int>(safetensors::Dtype::I16));
static_assert(SAFETENSORS_DTYPE_U16 == static_cast<int>(safetensors::Dtype::U16));
static_assert(SAFETENSORS_DTYPE_F16 == static_cast<int>(safetensors::Dtype::F16));
static_assert(SAFETENSORS_DTYPE_BF16 == static_cast<int>(safetensors::Dtype::BF16));
static_assert(SAFETENSORS_DTYPE_I32 == static_cast<int>(safetensors::Dtype::I32));
static_assert(SAFETENSORS_DTYPE_U32 == static_cast<int>(safetensors::Dtype::U32));
static_assert(SAFETENSORS_DTYPE_F32 == static_cast<int>(safetensors::Dtype::F32));
static_assert(SAFETENSORS_DTYPE_F64 == static_cast<int>(safetensors::Dtype::F64));
static_assert(SAFETENSORS_DTYPE_I64 == static_cast<int>(safetensors::Dtype::I64));
static_assert(SAFETENSORS_DTYPE_U64 == static_cast<int>(safetensors::Dtype::U64));
static_assert(SAFETENSORS_DTYPE_C64 == static_cast<int>(safetensors::Dtype::C64));
static_assert(SAFETENSORS_DTYPE_F8_E4M3 == static_cast<int>(safetensors::Dtype::F8_E4M3));
static_assert(SAFETENSORS_DTYPE_F8_E5M2 == static_cast<int>(safetensors::Dtype::F8_E5M2));
static_assert(SAFETENSORS_DTYPE_F8_E8M0 == static_cast<int>(safetensors::Dtype::F8_E8M0));
static_assert(SAFETENSORS_DTYPE_F8_E4M3FNUZ == static_cast<int>(safetensors::Dtype::F8_E4M3FNUZ));
static_assert(SAFETENSORS_DTYPE_F8_E5M2FNUZ == static_cast<int>(safetensors::Dtype::F8_E5M2FNUZ));
static_assert(SAFETENSORS_DTYPE_F6_E2M3 == static_cast<int>(safetensors::Dtype::F6_E2M3));
static_assert(SAFETENSORS_DTYPE_F6_E3M2 == static_cast<int>(safetensors::Dtype::F6_E3M2));
static_assert(SAFETENSORS_DTYPE_F4 == static_cast<int>(safetensors::Dtype::F4));
static_assert(SAFETENSORS_DTYPE_UNKNOWN == static_cast<int>(safetensors::Dtype::UNKNOWN));

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

}  // namespace

extern "C" {

uint32_t safetensors_abi_version(void) {
  return SAFETENSORS_ABI_VERSION;
}

const char* safetensors_version_string(void) {
  return SAFETENSORS_VERSION_STRING;
}

const char* safetensors_status_name(safetensors_status status) {
  return safetensors::to_string(code_of(status));
}

size_t safetensors_error_text(const safetensors_error* error, char* text, size_t capacity) {
  if (!error) return give_text("", text, capacity);
  const std::string_view message = held(error->message, sizeof error->message);
  return safetensors::base::caught_all(
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
  const std::string_view given(text, length == SAFETENSORS_NUL_TERMINATED ? std::strlen(text) : length);
  return safetensors::base::caught_all([&] { return give_text(safetensors::printable(given), shown, capacity); },
                                       [&] {
                                         give_text(given, shown, capacity);
                                         if (shown && capacity != 0)
                                           std::replace_if(
                                               shown, shown + std::strlen(shown),
                                               [](char byte) { return byte < ' ' || byte > '~' || byte == '\\'; }, '?');
                                         return given.size();
                                       });
}

const char* safetensors_dtype_name(safetensors_dtype dtype) {
  for (const safetensors::Dtype known : safetensors::all_dtypes())
    if (static_cast<safetensors_dtype>(known) == dtype) return to_string(known).data();  // a literal
  return nullptr;
}

uint32_t safetensors_dtype_bits(safetensors_dtype dtype) {
  for (const safetensors::Dtype known : safetensors::all_dtypes())
    if (static_cast<safetensors_dtype>(known) == dtype) return safetensors::bits(known);
  return 0;
}

safetensors_dtype safetensors_dtype_parse(const char* name, size_t length) {
  if (!name) return 0;
  const auto known = safetensors::parse_dtype(length == SAFETENSORS_NUL_TERMINATED ? std::string_view(name)
                                                                                   : std::string_view(name, length));
  return known ? static_cast<safetensors_dtype>(*known) : 0;
}

}  // extern "C"
