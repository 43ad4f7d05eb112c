// Writes the header of the NPY format: magic, version, length, and a Python dict as text.
#include "npy.h"
#include "text/text.h"

namespace safetensors::cli {

std::optional<std::string_view> npy_type(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::BOOL:
      return "|b1";
    case Dtype::U8:
      return "|u1";
    case Dtype::I8:
      return "|i1";
    case Dtype::U16:
      return "<u2";
    case Dtype::I16:
      return "<i2";
    case Dtype::F16:
      return "<f2";
    case Dtype::U32:
      return "<u4";
    case Dtype::I32:
      return "<i4";
    case Dtype::F32:
      return "<f4";
    case Dtype::U64:
      return "<u8";
    case Dtype::I64:
      return "<i8";
    case Dtype::F64:
      return "<f8";
    case Dtype::C64:
      return "<c8";
    default:
      return std::nullopt;
  }
}

std::string npy_header(std::string_view type, ShapeView shape) {
  std::string text = formatted("{{'descr': '{}', 'fortran_order': False, 'shape': (", type);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += formatted("{}{}", i == 0 ? "" : ", ", shape[i]);
  }
  text += shape.size() == 1 ? ",), }" : "), }";
  constexpr std::size_t kAlignment = 64;
  constexpr std::size_t kMaxShortHeader = 65535;  // bytes; the limit of a length in 2 bytes
  // Magic, version and the length in 2 or 4 bytes; the text ends with a line feed.
  const std::size_t length_bytes = text.size() + kAlignment > kMaxShortHeader ? 4 : 2;
  const std::size_t before = 8 + length_bytes;
  text.append((kAlignment - (before + text.size() + 1) % kAlignment) % kAlignment, ' ');
  text += '\n';
  std::string header = "\x93NUMPY";
  header += length_bytes == 2 ? '\x01' : '\x02';
  header += '\0';
  for (std::size_t i = 0; i < length_bytes; ++i) header += static_cast<char>(text.size() >> (8 * i) & 0xFF);
  return header + text;
}

}  // namespace safetensors::cli
