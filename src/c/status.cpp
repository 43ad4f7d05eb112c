// Versions, status codes, errors and printable text in C.
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
using safetensors::Status;
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

static_assert(sizeof(safetensors_error) == 1040, "never changes: it lies in the caller's memory");

// Turns an unknown number into an unknown Errc.
Errc code_of(safetensors_status status) noexcept {
  return status >= 0 && status <= 0xFFFF ? static_cast<Errc>(status) : static_cast<Errc>(0xFFFF);
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

int32_t safetensors_status_rule(safetensors_status status) {
  return safetensors::format_rule(code_of(status));
}

int32_t safetensors_status_is_system_error(safetensors_status status) {
  return safetensors::is_system_error(code_of(status)) ? 1 : 0;
}

safetensors_status safetensors_error_format(const safetensors_error* failure, char* text, size_t capacity,
                                            size_t* length, safetensors_error* error) {
  clear(length);
  return guarded(failure == error ? nullptr : error, [&]() -> Status {
    if (Status status = require({{failure, "failure"}}); !status) return status;
    if (!text && capacity != 0) return invalid_argument("argument text is NULL");
    Error copy;
    copy.code = code_of(failure->code);
    copy.os_error = failure->os_error;
    copy.offset = failure->offset;
    copy.message.assign(failure->message, strnlen(failure->message, sizeof failure->message));
    copy.path.assign(failure->path, strnlen(failure->path, sizeof failure->path));
    const std::string shown = copy.to_string();
    if (length) *length = shown.size();
    copy_text(shown, text, capacity, {});
    return {};
  });
}

safetensors_status safetensors_printable(const char* text, size_t text_length, char* shown, size_t capacity,
                                         size_t* length, safetensors_error* error) {
  clear(length);
  return guarded(error, [&]() -> Status {
    auto given = text_of(text, text_length, "text");
    if (!given) return std::move(given).error();
    if (!shown && capacity != 0) return invalid_argument("argument shown is NULL");
    const std::string safe = safetensors::printable(*given);
    if (length) *length = safe.size();
    copy_text(safe, shown, capacity, {});
    return {};
  });
}

safetensors_status safetensors_buffer_bytes(const safetensors_buffer* buffer, const void** data, size_t* size,
                                            safetensors_error* error) {
  clear(data, size);
  return guarded(error, [&]() -> Status {
    if (Status status = require({{buffer, "buffer"}, {data, "data"}, {size, "size"}}); !status) return status;
    *data = buffer->bytes.data.get();
    *size = buffer->bytes.size;
    return {};
  });
}

void safetensors_buffer_free(safetensors_buffer* buffer) {
  delete buffer;
}

}  // extern "C"
