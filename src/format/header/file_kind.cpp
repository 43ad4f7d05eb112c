// Recognizes files of other kinds by the signatures that their formats publish. Long signatures come first, because
// they are the most certain.
//
// Text comes last. It cannot be a model: four or more characters of text, read as a header's length, are far over every
// limit.
#include "format/header/file_kind.h"

#include <algorithm>

#include "base/little_endian.h"
#include "base/utf8.h"

namespace safetensors::format {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kWhiteSpace = " \t\r\n";
constexpr std::string_view kConvert =
    "load it with PyTorch if you trust it, and save it with safetensors.torch.save_file";

struct Signature {
  std::string_view bytes;
  FileKind kind;
  std::size_t offset = 0;
};

constexpr Signature kSignatures[] = {
    {"version https://git-lfs"sv, {"a Git LFS pointer", "run `git lfs pull` to get the model itself"}},
    {"\x1f\x8b\x08"sv, {"a gzip file", "decompress it first"}},
    {"\xfd"
     "7zXZ\0"sv,
     {"an xz file", "decompress it first"}},
    {"\x28\xb5\x2f\xfd"sv, {"a zstd file", "decompress it first"}},
    {"7z\xbc\xaf\x27\x1c"sv, {"a 7z archive", "extract the model first"}},
    {"GGUF"sv, {"a GGUF model", "a format of llama.cpp: ask for the model as safetensors"}},
    {"\x89HDF\r\n\x1a\n"sv, {"an HDF5 file", "such as a Keras model: read it with h5py"}},
    {"\x93NUMPY"sv, {"a NumPy array", "read it with numpy.load"}},
    {"%PDF-"sv, {"a PDF document", ""}},
    {"\x89PNG\r\n\x1a\n"sv, {"a PNG image", ""}},
    {"\xff\xd8\xff"sv, {"a JPEG image", ""}},
    {"Rar!\x1a\x07"sv, {"a RAR archive", "extract the model first"}},
    {"ARROW1\0\0"sv, {"an Arrow file", "read it with pyarrow"}},
    {"PAR1"sv, {"a Parquet file", "read it with pyarrow"}},
    {"\x7f"
     "ELF"sv,
     {"an ELF program", ""}},
    {"lmgg"sv, {"an old GGML model", "a format of llama.cpp: ask for the model as safetensors"}},
    {"tjgg"sv, {"an old GGML model", "a format of llama.cpp: ask for the model as safetensors"}},
    {"\x81\xa6params"sv, {"a Flax model in MsgPack", "read it with flax.serialization"}},
    {"(dp0\n"sv, {"a pickle, such as an old PyTorch checkpoint", kConvert}},
    {"ccopy_reg\n"sv, {"a pickle, such as an old PyTorch checkpoint", kConvert}},
    {"1AY&SY"sv, {"a bzip2 file", "decompress it first"}, 4},
    {"ustar"sv, {"a tar archive", "extract the model first"}, 257},
    {"TFL3"sv, {"a TensorFlow Lite model", "ask for the model as safetensors"}, 4},
};

std::string_view skip_white_space(std::string_view text) noexcept {
  return text.substr(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
}

// Returns whether the file begins like a safetensors file. If only 8 bytes are given, the length alone decides. Such a
// file is damaged or truncated, but it has no other kind. This test must come first, because the low bytes of a length
// can equal a short signature.
bool begins_like_header(std::string_view start) noexcept {
  if (start.size() < 8) return false;
  const std::uint64_t length = base::load_u64(reinterpret_cast<const std::byte*>(start.data()));
  return length <= 0xFFFFFFFF && (start.size() == 8 || skip_white_space(start.substr(8)).starts_with('{'));
}

// Compares without regard to case. word must be in lower case.
bool contains_in_any_case(std::string_view text, std::string_view word) noexcept {
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b; };
  return std::search(text.begin(), text.end(), word.begin(), word.end(), same) != text.end();
}

// A zip archive begins with a local file header. The length of the entry's name is at byte 26, the name at byte 30.
FileKind zip_kind(std::string_view start) noexcept {
  std::string_view name;
  if (start.size() > 30) {
    const auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(start[i])); };
    name = start.substr(30, byte(26) | byte(27) << 8);
  }
  if (name.ends_with("/data.pkl")) return {"a PyTorch checkpoint", kConvert};
  if (name.ends_with(".npy")) return {"a NumPy archive (.npz)", "read it with numpy.load"};
  return {"a zip archive", "such as a PyTorch checkpoint, or a model that must be extracted first"};
}

// Recognizes pickle protocol 2 and later: the opcode PROTO, the protocol number, and an opcode that can come first.
// Earlier protocols have no signature.
bool is_pickle(std::string_view start) noexcept {
  constexpr std::string_view kFirstOpcodes = "\x95}]()cNKMJ\x88\x89\x8a\x8bGXBCT\x8c\x8d\x8eU\x8f\x96"sv;
  return start.size() > 2 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5 &&
         kFirstOpcodes.find(start[2]) != std::string_view::npos;
}

// ONNX is a Protobuf message without a signature. Exporters begin with the version of the format (field 1, below 32)
// and the name of the producer (field 2, such as "pytorch").
bool is_onnx(std::string_view start) noexcept {
  if (start.size() < 8 || start[0] != '\x08' || start[1] <= 0 || start[1] >= 32 || start[2] != '\x12') return false;
  const auto length = static_cast<std::size_t>(static_cast<unsigned char>(start[3]));
  const std::string_view name = start.substr(4, length);
  const auto is_of_name = [](char c) { return c > ' ' && c < '\x7f'; };
  return length >= 2 && length < 64 && name.size() == length && std::all_of(name.begin(), name.end(), is_of_name);
}

// A download that reserves its space first leaves zeros.
bool is_zeros(std::string_view start) noexcept {
  constexpr std::size_t kCertain = 64;  // bytes
  return start.size() >= kCertain && start.find_first_not_of('\0') == std::string_view::npos;
}

bool is_text(std::string_view start) noexcept {
  const auto is_control = [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\r' && c != '\n') || c == '\x7f';
  };
  if (start.size() < 4 || std::any_of(start.begin(), start.end(), is_control)) return false;
  // The last character may be cut.
  return std::min(base::first_invalid_utf8(start), start.size()) + 3 >= start.size();
}

FileKind text_kind(std::string_view start) noexcept {
  const std::string_view text = skip_white_space(start.starts_with("\xEF\xBB\xBF") ? start.substr(3) : start);
  if (text.starts_with('<')) {
    if (contains_in_any_case(text, "<!doctype html") || contains_in_any_case(text, "<html"))
      return {"an HTML page", "a login or error page? download the model again"};
    if (text.starts_with("<?xml")) return {"an XML document", "a server's error message? download the model again"};
  }
  if (text.starts_with('{') && skip_white_space(text.substr(1)).find_first_of("\"}") == 0) {
    if (text.find("\"weight_map\"") != std::string_view::npos || text.find("\"total_size\"") != std::string_view::npos)
      return {"a JSON index of several files", "open it as a checkpoint, or open the files that it names"};
    return {"a JSON document", "a configuration? open the model's folder, its index or a .safetensors file"};
  }
  return is_text(start) ? FileKind{"a text file", "a server's error message? download the model again"} : FileKind{};
}

}  // namespace

FileKind file_kind(std::string_view start) noexcept {
  if (begins_like_header(start)) return {};
  for (const Signature& signature : kSignatures) {
    if (start.substr(std::min(signature.offset, start.size())).starts_with(signature.bytes)) return signature.kind;
  }
  if (start.starts_with("PK\3\4") || start.starts_with("PK\5\6")) return zip_kind(start);
  if (is_pickle(start)) return {"a pickle, such as an old PyTorch checkpoint", kConvert};
  if (is_onnx(start)) return {"an ONNX model", "read it with onnx, or ask for the model as safetensors"};
  if (is_zeros(start)) return {"filled with zeros", "an incomplete download? download the model again"};
  return text_kind(start);
}

Error with_file_kind(Error error, std::string_view start) {
  const int rule = format_rule(error.code);
  if (rule < 1 || rule > 5) return error;
  const FileKind kind = file_kind(start);
  if (kind.name.empty()) return error;
  const std::string phrase = error.message.substr(0, error.message.find(':'));
  error.message = std::string("the file is ").append(kind.name).append(", not a safetensors file");
  if (!kind.hint.empty()) error.message.append(" (").append(kind.hint).append(")");
  error.message.append(": ").append(phrase);
  return error;
}

}  // namespace safetensors::format
