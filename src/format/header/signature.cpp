// A file can be of two kinds at once: programs look for the signature of their format at different offsets. For
// example, PDF readers accept 1024 bytes before the signature, and zip readers search from the end. Random data must
// not match, so short signatures need plausible bytes after them.
#include "format/header/signature.h"

#include <algorithm>

namespace safetensors::format {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kPdfBytes = 1024;
constexpr std::size_t kTarOffset = 257;
constexpr std::size_t kIsoOffset = 32768;
constexpr std::size_t kZipEnd = 22;  // bytes of the record without its comment

struct KnownSignature {
  std::string_view bytes;
  std::string_view kind;
};

constexpr KnownSignature kKnown[] = {
    {"PK\3\4"sv, "a zip archive"},
    {"\x7f"
     "ELF"sv,
     "an ELF program"},
    {"\xcf\xfa\xed\xfe"sv, "a Mach-O program"},
    {"\xca\xfe\xba\xbe"sv, "a Java class or a Mach-O program"},
    {"\0asm"sv, "a WebAssembly program"},
    {"%PDF-"sv, "a PDF document"},
    {"GGUF"sv, "a GGUF model"},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
    {"\x93NUMPY"sv, "a NumPy array"},
    {"\xfd"
     "7zXZ\0"sv,
     "an xz file"},
    {"\x28\xb5\x2f\xfd"sv, "a zstd file"},
    {"7z\xbc\xaf\x27\x1c"sv, "a 7z archive"},
    {"Rar!\x1a\x07"sv, "a RAR archive"},
    {"\x89PNG\r\n\x1a\n"sv, "a PNG image"},
    {"SQLite format 3\0"sv, "an SQLite database"},
};

std::size_t byte_at(std::string_view text, std::size_t index) noexcept {
  return static_cast<unsigned char>(text[index]);
}

// The magic, the only method (8), and flags below 32.
bool is_gzip(std::string_view bytes) noexcept {
  return bytes.size() > 3 && bytes.starts_with("\x1f\x8b\x08"sv) && byte_at(bytes, 3) < 32;
}

// The name of the header, "MZ", and 0 in the high byte of the number of pages: a program for DOS or Windows. The
// signature "PE" follows at the offset that byte 60 gives.
bool is_windows_program(std::string_view bytes) noexcept {
  if (bytes.size() < 64 || !bytes.starts_with("MZ")) return false;
  const std::size_t offset = byte_at(bytes, 60) | byte_at(bytes, 61) << 8 | byte_at(bytes, 62) << 16;
  return offset >= 64 && offset + 4 <= bytes.size() && byte_at(bytes, 63) == 0 && bytes.substr(offset, 4) == "PE\0\0"sv;
}

// Protocol 2 to 5, then a frame (protocol 4 and 5), or an opcode that begins a dict or an import, as models have.
bool is_pickle_start(std::string_view bytes) noexcept {
  if (bytes.size() < 4 || byte_at(bytes, 0) != 0x80) return false;
  const std::size_t protocol = byte_at(bytes, 1);
  const std::size_t opcode = byte_at(bytes, 2);
  if (protocol == 4 || protocol == 5) return bytes.size() > 10 && opcode == 0x95 && byte_at(bytes, 10) == 0;
  if (protocol != 2 && protocol != 3) return false;
  if (opcode == '}' || opcode == ']') return byte_at(bytes, 3) == 'q' || byte_at(bytes, 3) == '(';
  if (opcode == 'c') return std::ranges::all_of(bytes.substr(3, 3), [](char c) { return c >= 'A' && c <= 'z'; });
  return bytes.substr(2, 2) == "\x8a\x0a";  // the magic number of old files of torch.save
}

}  // namespace

std::string_view begins_like(std::string_view bytes) noexcept {
  for (const KnownSignature& known : kKnown) {
    if (bytes.starts_with(known.bytes)) return known.kind;
  }
  if (is_gzip(bytes)) return "a gzip file";
  if (is_windows_program(bytes)) return "a Windows program";
  if (is_pickle_start(bytes)) return "a pickle, which can run any code";
  return {};
}

FoundSignature signature_at_start(std::string_view start) noexcept {
  if (const std::string_view kind = begins_like(start); !kind.empty()) return {kind, 0};
  if (start.starts_with("#!")) return {"a script", 0};
  const std::size_t pdf = start.substr(0, kPdfBytes).find("%PDF-");
  if (pdf != std::string_view::npos) return {"a PDF document", pdf};
  if (start.size() > kTarOffset && start.substr(kTarOffset).starts_with("ustar")) return {"a tar archive", kTarOffset};
  if (start.size() > kIsoOffset && start.substr(kIsoOffset + 1).starts_with("CD001")) {
    return {"an ISO image", kIsoOffset + 1};
  }
  return {};
}

FoundSignature signature_at_end(std::string_view end) noexcept {
  // From the end, as zip readers do. The comment must reach to the end of the file exactly.
  for (std::size_t left = end.size(); left >= kZipEnd;) {
    const std::size_t offset = end.rfind("PK\5\6"sv, left - kZipEnd);
    if (offset == std::string_view::npos) return {};
    const std::size_t comment = byte_at(end, offset + 20) | byte_at(end, offset + 21) << 8;
    if (offset + kZipEnd + comment == end.size()) return {"a zip archive", offset};
    left = offset + kZipEnd - 1;
  }
  return {};
}

}  // namespace safetensors::format
