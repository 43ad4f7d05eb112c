// The names of error codes, the text of an Error, and errors that every layer makes.
#include "base/error.h"

#include <exception>
#include <new>
#include <stdexcept>

namespace safetensors {
inline namespace v0 {

#define SAFETENSORS_CASE(code) \
  case Errc::code:             \
    return #code

// clang-format off
// The switch has no default, so the compiler finds a code without a name.
const char* to_string(Errc code) noexcept {
  switch (code) {
    SAFETENSORS_CASE(ok); SAFETENSORS_CASE(header_too_small); SAFETENSORS_CASE(header_too_large);
    SAFETENSORS_CASE(invalid_header_length); SAFETENSORS_CASE(invalid_utf8); SAFETENSORS_CASE(json_syntax);
    SAFETENSORS_CASE(json_leading_whitespace); SAFETENSORS_CASE(json_depth); SAFETENSORS_CASE(json_number);
    SAFETENSORS_CASE(json_type); SAFETENSORS_CASE(json_integer); SAFETENSORS_CASE(unknown_dtype);
    SAFETENSORS_CASE(missing_field); SAFETENSORS_CASE(duplicate_key); SAFETENSORS_CASE(invalid_offset);
    SAFETENSORS_CASE(size_overflow); SAFETENSORS_CASE(misaligned_size); SAFETENSORS_CASE(size_mismatch);
    SAFETENSORS_CASE(incomplete_data); SAFETENSORS_CASE(invalid_index); SAFETENSORS_CASE(ambiguous_checkpoint);
    SAFETENSORS_CASE(reserved_name); SAFETENSORS_CASE(duplicate_name); SAFETENSORS_CASE(data_length);
    SAFETENSORS_CASE(invalid_alignment); SAFETENSORS_CASE(overlapping_write); SAFETENSORS_CASE(incomplete_write);
    SAFETENSORS_CASE(writer_closed); SAFETENSORS_CASE(invalid_argument); SAFETENSORS_CASE(not_found);
    SAFETENSORS_CASE(dtype_mismatch); SAFETENSORS_CASE(misaligned_memory); SAFETENSORS_CASE(buffer_size);
    SAFETENSORS_CASE(not_writable); SAFETENSORS_CASE(shape_mismatch); SAFETENSORS_CASE(overlapping_destination);
    SAFETENSORS_CASE(value_out_of_range); SAFETENSORS_CASE(slice_index); SAFETENSORS_CASE(slice_step);
    SAFETENSORS_CASE(slice_rank); SAFETENSORS_CASE(slice_bits); SAFETENSORS_CASE(slice_syntax);
    SAFETENSORS_CASE(slice_not_contiguous); SAFETENSORS_CASE(out_of_memory); SAFETENSORS_CASE(open_failed);
    SAFETENSORS_CASE(not_regular_file); SAFETENSORS_CASE(read_failed); SAFETENSORS_CASE(write_failed);
    SAFETENSORS_CASE(sync_failed); SAFETENSORS_CASE(replace_failed); SAFETENSORS_CASE(replaced_not_durable);
    SAFETENSORS_CASE(file_truncated); SAFETENSORS_CASE(file_changed); SAFETENSORS_CASE(map_failed);
    SAFETENSORS_CASE(unsupported); SAFETENSORS_CASE(device_failed); SAFETENSORS_CASE(header_does_not_fit);
    SAFETENSORS_CASE(cancelled);
  }
  return "unknown";
}

// clang-format on
#undef SAFETENSORS_CASE

std::string Error::to_string() const {
  std::string out;
  if (!path.empty()) out = printable(path) + ": ";
  out += message;
  if (offset != kNoOffset) out += " (byte " + std::to_string(offset) + ")";
  return out;
}

}  // namespace v0

namespace base {

std::string concat(Text parts) {
  std::string text;
  for (const TextPart& part : parts) {
    if (part.kind_ == TextPart::Kind::text)
      text.append(part.text_, static_cast<std::size_t>(part.number_));
    else if (part.kind_ == TextPart::Kind::signed_number)
      text += std::to_string(static_cast<std::int64_t>(part.number_));
    else
      text += std::to_string(part.number_);
  }
  return text;
}

Error make_error(Errc code, std::string message, std::string_view path) {
  return Error{.code = code, .path = std::string(path), .message = std::move(message)};
}

Error make_error(Errc code, Text message, std::string_view path) {
  return make_error(code, concat(message), path);
}

Error with_path(Error error, std::string_view path) {
  if (error.path.empty()) error.path = path;
  return error;
}

Error out_of_memory() noexcept {
  return Error{.code = Errc::out_of_memory, .message = "out of memory"};
}

Error memory_error() {
  const auto failed = [](const std::exception&) { return out_of_memory(); };
  return caught<std::bad_alloc>([&] { return caught<std::length_error>([]() -> Error { raise_again(); }, failed); },
                                failed);
}

Error caller_error(Errc code, std::string_view what, std::uint64_t offset) noexcept {
  return guarded([&] {
    return Error{.code = code,
                 .offset = offset,
                 .message = concat({what, " threw an exception: ", printable(exception_text())})};
  });
}

Error opening_cancelled() noexcept {
  return guarded([] { return make_error(Errc::cancelled, kOpeningCancelled); });
}

Error cancelled(std::uint64_t completed, std::uint64_t total, std::string_view path) noexcept {
  return guarded([&] {
    return make_error(Errc::cancelled, {"cancelled after ", completed, " of ", total, " bytes"}, path);
  });
}

}  // namespace base
}  // namespace safetensors
