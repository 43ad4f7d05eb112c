// The names of error codes, the text of an Error, and errors that every layer makes.
#include "base/error.h"

#include <exception>
#include <new>
#include <stdexcept>

namespace safetensors {
inline namespace v0 {

#define SAFETENSORS_NAME_OF(code) \
  case Errc::code:                \
    return #code

// The switch has no default, so the compiler finds a code without a name.
const char* to_string(Errc code) noexcept {
  switch (code) {
    SAFETENSORS_NAME_OF(ok);
    SAFETENSORS_NAME_OF(header_too_small);
    SAFETENSORS_NAME_OF(header_too_large);
    SAFETENSORS_NAME_OF(invalid_header_length);
    SAFETENSORS_NAME_OF(invalid_utf8);
    SAFETENSORS_NAME_OF(json_syntax);
    SAFETENSORS_NAME_OF(json_leading_whitespace);
    SAFETENSORS_NAME_OF(json_depth);
    SAFETENSORS_NAME_OF(json_number);
    SAFETENSORS_NAME_OF(json_type);
    SAFETENSORS_NAME_OF(json_integer);
    SAFETENSORS_NAME_OF(unknown_dtype);
    SAFETENSORS_NAME_OF(missing_field);
    SAFETENSORS_NAME_OF(duplicate_key);
    SAFETENSORS_NAME_OF(invalid_offset);
    SAFETENSORS_NAME_OF(size_overflow);
    SAFETENSORS_NAME_OF(misaligned_size);
    SAFETENSORS_NAME_OF(size_mismatch);
    SAFETENSORS_NAME_OF(incomplete_data);
    SAFETENSORS_NAME_OF(invalid_index);
    SAFETENSORS_NAME_OF(ambiguous_checkpoint);
    SAFETENSORS_NAME_OF(reserved_name);
    SAFETENSORS_NAME_OF(duplicate_name);
    SAFETENSORS_NAME_OF(data_length);
    SAFETENSORS_NAME_OF(invalid_alignment);
    SAFETENSORS_NAME_OF(overlapping_write);
    SAFETENSORS_NAME_OF(incomplete_write);
    SAFETENSORS_NAME_OF(writer_closed);
    SAFETENSORS_NAME_OF(invalid_argument);
    SAFETENSORS_NAME_OF(not_found);
    SAFETENSORS_NAME_OF(dtype_mismatch);
    SAFETENSORS_NAME_OF(misaligned_memory);
    SAFETENSORS_NAME_OF(buffer_size);
    SAFETENSORS_NAME_OF(not_writable);
    SAFETENSORS_NAME_OF(shape_mismatch);
    SAFETENSORS_NAME_OF(overlapping_destination);
    SAFETENSORS_NAME_OF(value_out_of_range);
    SAFETENSORS_NAME_OF(slice_index);
    SAFETENSORS_NAME_OF(slice_step);
    SAFETENSORS_NAME_OF(slice_rank);
    SAFETENSORS_NAME_OF(slice_bits);
    SAFETENSORS_NAME_OF(slice_syntax);
    SAFETENSORS_NAME_OF(slice_not_contiguous);
    SAFETENSORS_NAME_OF(out_of_memory);
    SAFETENSORS_NAME_OF(open_failed);
    SAFETENSORS_NAME_OF(not_regular_file);
    SAFETENSORS_NAME_OF(read_failed);
    SAFETENSORS_NAME_OF(write_failed);
    SAFETENSORS_NAME_OF(sync_failed);
    SAFETENSORS_NAME_OF(replace_failed);
    SAFETENSORS_NAME_OF(replaced_not_durable);
    SAFETENSORS_NAME_OF(file_truncated);
    SAFETENSORS_NAME_OF(file_changed);
    SAFETENSORS_NAME_OF(map_failed);
    SAFETENSORS_NAME_OF(unsupported);
    SAFETENSORS_NAME_OF(device_failed);
    SAFETENSORS_NAME_OF(header_does_not_fit);
    SAFETENSORS_NAME_OF(cancelled);
  }
  return "unknown";
}

#undef SAFETENSORS_NAME_OF

std::string Error::to_string() const {
  std::string out;
  if (!path.empty()) out = printable(path) + ": ";
  out += message;
  if (offset != kNoOffset) out += " (byte " + std::to_string(offset) + ")";
  return out;
}

}  // namespace v0

namespace base {

void TextPart::append_to(std::string& text) const {
  if (kind_ == Kind::text)
    text.append(text_, static_cast<std::size_t>(number_));
  else if (kind_ == Kind::signed_number)
    text += std::to_string(static_cast<std::int64_t>(number_));
  else
    text += std::to_string(number_);
}

std::string concat(std::initializer_list<TextPart> parts) {
  std::string text;
  for (const TextPart& part : parts) part.append_to(text);
  return text;
}

Error make_error(Errc code, std::string message, std::string_view path) {
  return Error{.code = code, .path = std::string(path), .message = std::move(message)};
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
    return make_error(Errc::cancelled, concat({"cancelled after ", completed, " of ", total, " bytes"}), path);
  });
}

}  // namespace base
}  // namespace safetensors
