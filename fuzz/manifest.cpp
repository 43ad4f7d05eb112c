// Parses any text as a manifest. If the text is refused, the error must say why, in a short message. An accepted
// manifest must be consistent, and its text must give the same manifest again. Parsing must stay below its limit of
// memory. The first byte of an input can choose other tests. For a zero byte, the next bytes choose the members of a
// manifest. Its text must be accepted exactly when the members are consistent. For 1 to 5, the rest is repeated in a
// large manifest: as a file, a tensor, a chunk, or as a part of a name.
//
// So that a fuzzer need not find 64 hexadecimal digits, each @ of a text becomes a digest, and each # a number.
#include <safetensors/hash.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "format/checkpoint/shard_index.h"
#include "input.h"
#include "require.h"
#include "support/allocation_counter.h"

namespace {

using fuzz::require;
using safetensors::Digest;
using safetensors::Errc;
using safetensors::Manifest;
using safetensors::ManifestFile;
using safetensors::ManifestTensor;
using safetensors::Result;

// The first byte of an input. Any other one begins a text.
enum Kind : std::uint8_t { kMembers, kFiles, kTensors, kChunks, kFileName, kTensorName };

constexpr std::uint64_t kMinChunk = 65536;
constexpr std::uint64_t kMaxChunk = 16777216;

bool is_utf8(std::string_view text) {
  return safetensors::base::first_invalid_utf8(text) == text.npos;
}

bool consistent(const ManifestFile& file, std::uint64_t chunk_bytes) {
  if (!is_utf8(file.name) || safetensors::format::check_relative_name(file.name) != nullptr) return false;
  if (file.data_start < 8 || file.bytes < file.data_start) return false;
  if (file.chunks.size() != file.bytes / chunk_bytes + (file.bytes % chunk_bytes > 0 ? 1 : 0)) return false;
  std::uint64_t end = file.data_start;
  std::set<std::string_view> names;
  for (const ManifestTensor& tensor : file.tensors) {
    if (!is_utf8(tensor.name) || !names.insert(tensor.name).second) return false;
    if (tensor.begin < end || tensor.end < tensor.begin || tensor.end > file.bytes) return false;
    end = tensor.end;
  }
  return true;
}

// The rules of docs/hashes.md, without a thought for speed.
bool consistent(const Manifest& manifest) {
  std::uint64_t size = kMinChunk;
  while (size < kMaxChunk && size != manifest.chunk_bytes) size *= 2;
  if (size != manifest.chunk_bytes || manifest.files.empty()) return false;
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    if (!consistent(manifest.files[i], size)) return false;
    if (i > 0 && manifest.files[i - 1].name >= manifest.files[i].name) return false;
  }
  return true;
}

bool equal(const ManifestTensor& a, const ManifestTensor& b) {
  return a.name == b.name && a.begin == b.begin && a.end == b.end && a.digest == b.digest;
}

bool equal(const ManifestFile& a, const ManifestFile& b) {
  return a.name == b.name && a.bytes == b.bytes && a.data_start == b.data_start && a.digest == b.digest &&
         a.header == b.header && a.data == b.data && a.chunks == b.chunks &&
         std::ranges::equal(a.tensors, b.tensors, [](const auto& x, const auto& y) { return equal(x, y); });
}

bool equal(const Manifest& a, const Manifest& b) {
  return a.algorithm == b.algorithm && a.chunk_bytes == b.chunk_bytes &&
         std::ranges::equal(a.files, b.files, [](const auto& x, const auto& y) { return equal(x, y); });
}

Result<Manifest> parse_bounded(std::string_view text) {
  const allocations::Peak peak;
  Result<Manifest> manifest = Manifest::parse(text);
  require(peak.bytes() <= 8 * text.size() + (64 << 10), "parsing uses at most 8 x text + 64 KiB of memory");
  return manifest;
}

void check(const Manifest& manifest, std::string_view text) {
  require(is_utf8(text), "the text of an accepted manifest is UTF-8");
  require(consistent(manifest), "an accepted manifest is consistent");
  for (const ManifestFile& file : manifest.files)
    require(manifest.find(file.name) == &file, "find() returns each file by its name");
  require(manifest.find("") == nullptr, "find() returns nothing for a name that is not allowed");
  const std::string written = manifest.text().value();
  const Result<Manifest> again = parse_bounded(written);
  require(again && equal(*again, manifest), "the text of a manifest gives the same manifest");
  require(again->text().value() == written, "the text of a manifest is stable");
}

void check_any(std::string_view text) {
  const Result<Manifest> manifest = parse_bounded(text);
  if (manifest) return check(*manifest, text);
  const safetensors::Error& error = manifest.error();
  require(error.code == Errc::invalid_argument && !error.message.empty(),
          "the error has the code invalid_argument and a message");
  require(error.message.size() <= 4096 && is_utf8(error.message), "the message of the error is short, and UTF-8");
  require(safetensors::printable(error.message) == error.message || error.message.find('\\') != std::string::npos,
          "the message of the error is printable");
  const bool of_syntax = error.message.starts_with("not a manifest: ");
  require(of_syntax ? error.offset <= text.size() : error.offset == safetensors::Error::kNoOffset,
          "an error about a byte has its offset in the text, an error about several members has none");
}

// @ becomes a digest. # becomes a number of seven digits, so that numbered names ascend.
void append_replaced(std::string& out, std::string_view text, std::size_t number) {
  for (const char c : text) {
    if (c == '@') {
      out.append(64, 'a');
    } else if (c == '#') {
      out += std::to_string(1'000'000 + number);
    } else {
      out += c;
    }
  }
}

std::string replaced(std::string_view text, std::size_t number = 0) {
  std::string out;
  append_replaced(out, text, number);
  return out;
}

constexpr std::uint64_t kRepeats = 1000;

void check_repeated(std::string_view begin, std::string_view entry, std::string_view end, bool commas = true) {
  std::string text = replaced(begin);
  for (std::size_t i = 0; i < kRepeats; ++i) {
    if (commas && i > 0) text += ',';
    append_replaced(text, entry, i);
  }
  append_replaced(text, end, 0);
  check_any(text);
}

void check_large(std::uint8_t kind, std::string_view entry) {
  const std::string head = R"({"schema":"safetensors.manifest/1","algorithm":"sha256","chunk_bytes":65536,"files":[)";
  const std::string file = head + R"({"data_start":8,"digest":"@","header":"@","data":"@",)";
  const std::string one_chunk = file + R"("bytes":65536,"chunks":["@"],)";
  const std::string all_chunks = file + R"("bytes":)" + std::to_string(kRepeats * kMinChunk) + ',';
  if (kind == kFiles) return check_repeated(head, entry, "]}");
  if (kind == kTensors) return check_repeated(one_chunk + R"("name":"a","tensors":[)", entry, "]}]}");
  if (kind == kChunks) return check_repeated(all_chunks + R"("name":"a","tensors":[],"chunks":[)", entry, "]}]}");
  if (kind == kFileName) return check_repeated(one_chunk + R"("tensors":[],"name":")", entry, R"("}]})", false);
  const std::string tensor = one_chunk + R"("name":"a","tensors":[{"begin":8,"end":8,"digest":"@","name":")";
  check_repeated(tensor, entry, R"("}]}]})", false);
}

Digest digest_of(fuzz::Input& input) {
  Digest digest;
  digest.bytes.fill(input.byte());
  return digest;
}

std::string name_of(fuzz::Input& input) {
  std::string name;
  for (std::uint64_t left = input.up_to(5); left > 0; --left) name += static_cast<char>(input.byte());
  return name;
}

// Mostly a number near the one before, so that many manifests are consistent.
std::uint64_t number_of(fuzz::Input& input, std::uint64_t before) {
  const std::uint8_t kind = input.byte();
  return kind == 255 ? input.u64() : kind == 254 ? before - input.byte() : before + kind;
}

ManifestFile file_of(fuzz::Input& input, std::uint64_t chunk_bytes) {
  ManifestFile file{.name = name_of(input)};
  file.data_start = number_of(input, 8);
  file.digest = digest_of(input);
  file.header = digest_of(input);
  file.data = digest_of(input);
  std::uint64_t end = file.data_start;
  for (std::uint64_t left = input.up_to(4); left > 0; --left) {
    ManifestTensor& tensor = file.tensors.emplace_back();
    tensor.name = name_of(input);
    tensor.begin = number_of(input, end);
    tensor.end = end = number_of(input, tensor.begin);
    tensor.digest = digest_of(input);
  }
  file.bytes = number_of(input, end + input.up_to(3) * chunk_bytes);
  const std::uint64_t chunks = chunk_bytes == 0 ? 0 : (file.bytes / chunk_bytes + (file.bytes % chunk_bytes > 0));
  for (std::uint64_t left = std::min<std::uint64_t>(chunks, 8) + input.up_to(255) / 250; left > 0; --left)
    file.chunks.push_back(digest_of(input));
  return file;
}

void check_members(fuzz::Input input) {
  const std::uint8_t kind = input.byte();
  Manifest manifest{.algorithm = static_cast<safetensors::HashAlgorithm>(kind % 2),
                    .chunk_bytes = kind < 250 ? kMinChunk << (kind / 2 % 9) : number_of(input, kMaxChunk)};
  for (std::uint64_t left = input.up_to(3); left > 0; --left)
    manifest.files.push_back(file_of(input, manifest.chunk_bytes));
  if (input.byte() < 200) std::ranges::sort(manifest.files, {}, &ManifestFile::name);
  const std::string text = manifest.text().value();
  const Result<Manifest> parsed = parse_bounded(text);
  require(parsed.ok() == consistent(manifest), "a text is accepted exactly if its members are consistent");
  if (parsed) require(equal(*parsed, manifest), "the text of a manifest gives the same manifest");
  if (!parsed) check_any(text);
}

}  // namespace

int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (size > 0 && data[0] == kMembers) {
    check_members(fuzz::Input(data + 1, size - 1));
  } else if (size > 1 && size < 256 && data[0] <= kTensorName) {
    check_large(data[0], text.substr(1));
  } else {
    check_any(text);
    if (text.find_first_of("@#") != text.npos) check_any(replaced(text));
  }
  return 0;
}
