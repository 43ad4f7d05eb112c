// The names of error codes, and the text of an Error. The search for a name is linear, because errors are rare.
#include <safetensors/error.h>

namespace safetensors {
inline namespace v0 {
namespace {

struct Name {
  Errc code;
  const char* text;
};

#define NAME(code) \
  { Errc::code, #code }
constexpr Name kNames[] = {
    NAME(ok),
    NAME(header_too_small),
    NAME(header_too_large),
    NAME(invalid_header_length),
    NAME(invalid_utf8),
    NAME(json_syntax),
    NAME(json_leading_whitespace),
    NAME(json_depth),
    NAME(json_number),
    NAME(json_type),
    NAME(json_integer),
    NAME(unknown_dtype),
    NAME(missing_field),
    NAME(duplicate_key),
    NAME(invalid_offset),
    NAME(size_overflow),
    NAME(misaligned_size),
    NAME(size_mismatch),
    NAME(incomplete_data),
    NAME(invalid_index),
    NAME(ambiguous_checkpoint),
    NAME(reserved_name),
    NAME(duplicate_name),
    NAME(data_length),
    NAME(invalid_alignment),
    NAME(overlapping_write),
    NAME(incomplete_write),
    NAME(writer_closed),
    NAME(invalid_argument),
    NAME(not_found),
    NAME(dtype_mismatch),
    NAME(misaligned_memory),
    NAME(buffer_size),
    NAME(not_writable),
    NAME(shape_mismatch),
    NAME(overlapping_destination),
    NAME(slice_index),
    NAME(slice_step),
    NAME(slice_rank),
    NAME(slice_bits),
    NAME(slice_syntax),
    NAME(slice_not_contiguous),
    NAME(out_of_memory),
    NAME(open_failed),
    NAME(not_regular_file),
    NAME(read_failed),
    NAME(write_failed),
    NAME(sync_failed),
    NAME(replace_failed),
    NAME(replaced_not_durable),
    NAME(file_truncated),
    NAME(file_changed),
    NAME(map_failed),
    NAME(unsupported),
    NAME(device_failed),
    NAME(header_does_not_fit),
    NAME(cancelled),
};
#undef NAME

}  // namespace

const char* to_string(Errc code) noexcept {
  for (const Name& name : kNames) {
    if (name.code == code) return name.text;
  }
  return "unknown";
}

std::string Error::to_string() const {
  std::string out;
  if (!path.empty()) out = printable(path) + ": ";
  out += message;
  if (offset != kNoOffset) out += " (byte " + std::to_string(offset) + ")";
  return out;
}

}  // namespace v0
}  // namespace safetensors
