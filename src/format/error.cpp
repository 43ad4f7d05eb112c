#include <safetensors/error.h>

#include <cstdio>

#include "base/utf8.h"
#include "format/visible.h"

namespace safetensors {
inline namespace v0 {
namespace {

struct Range {
  char32_t first, last;
};

// Characters that show nothing, or that change how what stands around them is shown (Unicode 15: Cc, Cf, Zl, Zp, and
// the fillers and selectors that are drawn as nothing). Sorted.
constexpr Range kInvisible[] = {{0x00, 0x1F},       {0x7F, 0x9F},       {0xAD, 0xAD},       {0x34F, 0x34F},
                                {0x600, 0x605},     {0x61C, 0x61C},     {0x6DD, 0x6DD},     {0x70F, 0x70F},
                                {0x890, 0x891},     {0x8E2, 0x8E2},     {0x115F, 0x1160},   {0x17B4, 0x17B5},
                                {0x180B, 0x180F},   {0x200B, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x206F},
                                {0x2800, 0x2800},   {0x3164, 0x3164},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},
                                {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},   {0x110BD, 0x110BD}, {0x110CD, 0x110CD},
                                {0x13430, 0x1345F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}};

bool invisible(char32_t scalar) noexcept {
  for (const Range& range : kInvisible) {
    if (scalar < range.first) return false;
    if (scalar <= range.last) return true;
  }
  return false;
}

char32_t decode(std::string_view sequence) noexcept {
  const auto lead = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return lead;
  char32_t scalar = lead & (0x7Fu >> sequence.size());
  for (const char byte : sequence.substr(1)) scalar = scalar << 6 | (static_cast<unsigned char>(byte) & 0x3F);
  return scalar;
}

void append_hex(std::string& out, const char* format, unsigned value) {
  char text[16];
  std::snprintf(text, sizeof text, format, value);
  out += text;
}

}  // namespace
}  // namespace v0

namespace format {

bool has_invisible(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = base::utf8_sequence_length(text);
    if (length != 0 && invisible(decode(text.substr(0, length)))) return true;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return false;
}

}  // namespace format

inline namespace v0 {

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = base::utf8_sequence_length(text);
    const std::string_view sequence = text.substr(0, length);
    if (length == 0) {
      append_hex(out, "\\x%02x", static_cast<unsigned char>(text[0]));
    } else if (const char32_t scalar = decode(sequence); scalar == '\\') {
      out += "\\\\";
    } else if (invisible(scalar)) {
      append_hex(out, "\\u{%x}", static_cast<unsigned>(scalar));
    } else {
      out += sequence;
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string Error::to_string() const {
  std::string out;
  if (!path.empty()) out = printable(path) + ": ";
  out += message;
  if (offset != kNoOffset) out += " (byte " + std::to_string(offset) + ")";
  return out;
}

const char* to_string(Errc code) noexcept {
  switch (code) {
    case Errc::ok:
      return "ok";
    case Errc::header_too_small:
      return "header_too_small";
    case Errc::header_too_large:
      return "header_too_large";
    case Errc::invalid_header_length:
      return "invalid_header_length";
    case Errc::invalid_utf8:
      return "invalid_utf8";
    case Errc::json_syntax:
      return "json_syntax";
    case Errc::json_leading_whitespace:
      return "json_leading_whitespace";
    case Errc::json_depth:
      return "json_depth";
    case Errc::json_number:
      return "json_number";
    case Errc::json_type:
      return "json_type";
    case Errc::json_integer:
      return "json_integer";
    case Errc::unknown_dtype:
      return "unknown_dtype";
    case Errc::missing_field:
      return "missing_field";
    case Errc::duplicate_key:
      return "duplicate_key";
    case Errc::invalid_offset:
      return "invalid_offset";
    case Errc::size_overflow:
      return "size_overflow";
    case Errc::misaligned_size:
      return "misaligned_size";
    case Errc::size_mismatch:
      return "size_mismatch";
    case Errc::incomplete_data:
      return "incomplete_data";
    case Errc::invalid_index:
      return "invalid_index";
    case Errc::ambiguous_checkpoint:
      return "ambiguous_checkpoint";
    case Errc::reserved_name:
      return "reserved_name";
    case Errc::duplicate_name:
      return "duplicate_name";
    case Errc::data_length:
      return "data_length";
    case Errc::invalid_alignment:
      return "invalid_alignment";
    case Errc::overlapping_write:
      return "overlapping_write";
    case Errc::incomplete_write:
      return "incomplete_write";
    case Errc::writer_closed:
      return "writer_closed";
    case Errc::invalid_argument:
      return "invalid_argument";
    case Errc::not_found:
      return "not_found";
    case Errc::dtype_mismatch:
      return "dtype_mismatch";
    case Errc::misaligned_memory:
      return "misaligned_memory";
    case Errc::buffer_size:
      return "buffer_size";
    case Errc::not_writable:
      return "not_writable";
    case Errc::slice_index:
      return "slice_index";
    case Errc::slice_step:
      return "slice_step";
    case Errc::slice_rank:
      return "slice_rank";
    case Errc::slice_bits:
      return "slice_bits";
    case Errc::slice_syntax:
      return "slice_syntax";
    case Errc::out_of_memory:
      return "out_of_memory";
    case Errc::open_failed:
      return "open_failed";
    case Errc::not_regular_file:
      return "not_regular_file";
    case Errc::read_failed:
      return "read_failed";
    case Errc::write_failed:
      return "write_failed";
    case Errc::sync_failed:
      return "sync_failed";
    case Errc::replace_failed:
      return "replace_failed";
    case Errc::replaced_not_durable:
      return "replaced_not_durable";
    case Errc::file_truncated:
      return "file_truncated";
    case Errc::file_changed:
      return "file_changed";
    case Errc::map_failed:
      return "map_failed";
    case Errc::unsupported:
      return "unsupported";
    case Errc::device_failed:
      return "device_failed";
    case Errc::header_does_not_fit:
      return "header_does_not_fit";
    case Errc::cancelled:
      return "cancelled";
  }
  return "unknown";
}

}  // namespace v0
}  // namespace safetensors
