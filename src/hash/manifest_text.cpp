// Reads and writes the text of manifests. The text is compact JSON with a line per tensor, so that two manifests can be
// compared with text tools. The parser accepts only what make() could have written, apart from white space and the
// order of members, because a manifest may be hostile. The Python extension compiles this file, too: it needs no hash
// function.
#include <safetensors/hash.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "format/checkpoint/shard_index.h"
#include "hash/chunks.h"
#include "hash/manifest_names.h"
#include "json/reader.h"
#include "json/writer.h"
#include "os/regular_file.h"

namespace safetensors {
namespace hash {
namespace {

constexpr std::string_view kSchema = "safetensors.manifest/1";

// Reads the members of an object in any order. Each must be there once.
template <std::size_t kCount, class Read>
bool read_members(json::Reader& reader, const std::string_view (&names)[kCount], const char* what, Read read) {
  bool seen[kCount] = {};
  if (!reader.open('{', what)) return false;
  for (bool more = !reader.consume('}'); more;) {
    std::string_view key;
    std::size_t start = 0;
    if (!reader.key(key, start)) return false;
    const auto index = static_cast<std::size_t>(std::ranges::find(names, key) - names);
    if (index == kCount) return reader.fail(Errc::invalid_argument, start, "unknown member");
    if (std::exchange(seen[index], true))
      return reader.fail(Errc::invalid_argument, start, "second member of this name");
    if (!read(index) || !reader.next('}', more)) return false;
  }
  if (std::ranges::find(seen, false) == seen + kCount) return true;
  return reader.fail(Errc::invalid_argument, reader.offset(), "a member is missing");
}

template <class Read>
bool read_list(json::Reader& reader, const char* what, Read read) {
  if (!reader.open('[', what)) return false;
  for (bool more = !reader.consume(']'); more;) {
    if (!read() || !reader.next(']', more)) return false;
  }
  return true;
}

class Parser {
 public:
  // text: `size` bytes and then the padding of the reader, which changes the text.
  Parser(std::unique_ptr<char[]> text, std::size_t size) : text_(std::move(text)), reader_(text_.get(), size) {}

  Result<Manifest> parse() {
    if (read_manifest() && reader_.end()) return check();
    const json::Failure& failure = reader_.failure();
    Error error = base::make_error(Errc::invalid_argument, std::string("not a manifest: ") + failure.what);
    error.offset = failure.offset;
    return error;
  }

 private:
  bool read_manifest() {
    static constexpr std::string_view kNames[] = {"schema", "algorithm", "chunk_bytes", "files"};
    return read_members(reader_, kNames, "expected an object", [&](std::size_t member) {
      if (member == 0) return read_schema();
      if (member == 1) return read_algorithm();
      if (member == 2) return reader_.integer(manifest_.chunk_bytes);
      return read_list(reader_, "expected a list of files", [&] { return read_file(manifest_.files.emplace_back()); });
    });
  }
  bool read_schema() {
    (void)reader_.peek();  // skips white space
    const std::size_t start = reader_.offset();
    std::string_view schema;
    if (!reader_.string(schema)) return false;
    if (schema == kSchema) return true;
    return reader_.fail(Errc::invalid_argument, start, "the schema is not `safetensors.manifest/1`");
  }
  bool read_algorithm() {
    (void)reader_.peek();  // skips white space
    const std::size_t start = reader_.offset();
    std::string_view name;
    if (!reader_.string(name)) return false;
    const std::optional<HashAlgorithm> algorithm = hash_algorithm(name);
    if (!algorithm) return reader_.fail(Errc::invalid_argument, start, "unknown algorithm, expected sha256 or blake3");
    manifest_.algorithm = *algorithm;
    return true;
  }
  bool read_digest(Digest& out) {
    (void)reader_.peek();  // skips white space
    const std::size_t start = reader_.offset();
    std::string_view text;
    if (!reader_.string(text)) return false;
    const std::optional<Digest> digest = digest_from_hex(text);
    if (!digest) return reader_.fail(Errc::invalid_argument, start, "a digest is not 64 hexadecimal digits");
    out = *digest;
    return true;
  }
  bool read_name(std::string& out) {
    std::string_view name;
    if (!reader_.string(name)) return false;
    out = name;
    return true;
  }
  bool read_file(ManifestFile& file) {
    static constexpr std::string_view kNames[] = {"name",   "bytes", "data_start", "digest",
                                                  "header", "data",  "tensors",    "chunks"};
    return read_members(reader_, kNames, "expected a file", [&](std::size_t member) {
      if (member == 0) return read_name(file.name);
      if (member == 1) return reader_.integer(file.bytes);
      if (member == 2) return reader_.integer(file.data_start);
      if (member == 3) return read_digest(file.digest);
      if (member == 4) return read_digest(file.header);
      if (member == 5) return read_digest(file.data);
      if (member == 6)
        return read_list(reader_, "expected a list of tensors",
                         [&] { return read_tensor(file.tensors.emplace_back()); });
      return read_list(reader_, "expected a list of digests", [&] { return read_digest(file.chunks.emplace_back()); });
    });
  }
  bool read_tensor(ManifestTensor& tensor) {
    static constexpr std::string_view kNames[] = {"name", "begin", "end", "digest"};
    return read_members(reader_, kNames, "expected a tensor", [&](std::size_t member) {
      if (member == 0) return read_name(tensor.name);
      if (member == 1) return reader_.integer(tensor.begin);
      if (member == 2) return reader_.integer(tensor.end);
      return read_digest(tensor.digest);
    });
  }

  // Checks what depends on several members.
  Result<Manifest> check() {
    const auto fail = [](std::string what) { return base::make_error(Errc::invalid_argument, std::move(what)); };
    if (!is_chunk_size(manifest_.chunk_bytes))
      return fail("chunk_bytes is " + std::to_string(manifest_.chunk_bytes) +
                  ", expected a power of two from 65536 to 16777216");
    const ManifestFile* before = nullptr;
    for (const ManifestFile& file : manifest_.files) {
      if (const char* const why = format::check_relative_name(file.name))
        return fail("the file name " + base::shown_name(file.name) + " is not allowed: " + why);
      if (before != nullptr && before->name >= file.name)
        return fail("file " + base::shown_name(file.name) + " is not in the order of the names");
      if (Status status = check_file(file); !status)
        return fail("file " + base::shown_name(file.name) + ": " + status.error().message);
      before = &file;
    }
    if (manifest_.files.empty()) return fail("the manifest has no files");
    return std::move(manifest_);
  }
  [[nodiscard]] Status check_file(const ManifestFile& file) const {
    const auto fail = [](std::string what) { return base::make_error(Errc::invalid_argument, std::move(what)); };
    if (file.data_start < 8 || file.data_start > file.bytes) return fail("data_start is not inside of the file");
    const std::uint64_t chunks = chunk_count(file.bytes, manifest_.chunk_bytes);
    if (file.chunks.size() != chunks)
      return fail(std::to_string(file.chunks.size()) + " chunks, expected " + std::to_string(chunks) + " for " +
                  std::to_string(file.bytes) + " bytes");
    std::uint64_t end = file.data_start;
    std::vector<std::string_view> names;
    for (const ManifestTensor& tensor : file.tensors) {
      if (tensor.begin < end || tensor.end < tensor.begin || tensor.end > file.bytes)
        return fail("the range of tensor " + base::shown_name(tensor.name) +
                    " is not after the one before, in the file");
      end = tensor.end;
      names.push_back(tensor.name);
    }
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end()) return fail("tensor " + base::shown_name(*twice) + " occurs twice");
    return {};
  }

  const std::unique_ptr<char[]> text_;
  json::Reader reader_;  // of text_
  Manifest manifest_;
};

// A buffer for a text of `size` bytes, with zeros after it.
std::unique_ptr<char[]> text_buffer(std::size_t size) {
  auto text = std::make_unique_for_overwrite<char[]>(size + json::Reader::kPadding);
  std::fill_n(text.get() + size, json::Reader::kPadding, '\0');
  return text;
}

Result<Manifest> read(std::string_view path) {
  const Result<std::shared_ptr<const os::RegularFile>> file = os::RegularFile::open(path);
  if (!file) return file.error();
  const std::uint64_t size = (*file)->size().value();
  if (size > kMaxManifestBytes)
    return base::make_error(Errc::invalid_argument, "not a manifest: " + std::to_string(size) + " bytes, at most " +
                                                        std::to_string(kMaxManifestBytes) + " are read");
  const auto length = static_cast<std::size_t>(size);
  std::unique_ptr<char[]> text = text_buffer(length);
  if (Status status = os::read_exactly(**file, 0, std::as_writable_bytes(std::span(text.get(), length))); !status)
    return std::move(status).error();
  return Parser(std::move(text), length).parse();
}

void append_member(std::string& out, const char* name, const std::string& text) {
  ((((out += '"') += name) += "\": \"") += text) += '"';
}

void append_number(std::string& out, const char* name, std::uint64_t number) {
  ((out += '"') += name) += "\": ";
  json::append_integer(out, number);
}

void append_file(std::string& out, const ManifestFile& file) {
  out += "\n {\"name\": ";
  json::append_string(out, file.name);
  append_number(out += ", ", "bytes", file.bytes);
  append_number(out += ", ", "data_start", file.data_start);
  append_member(out += ",\n  ", "digest", to_hex(file.digest));
  append_member(out += ",\n  ", "header", to_hex(file.header));
  append_member(out += ",\n  ", "data", to_hex(file.data));
  out += ",\n  \"tensors\": [";
  for (const ManifestTensor& tensor : file.tensors) {
    out += &tensor == file.tensors.data() ? "\n   {\"name\": " : ",\n   {\"name\": ";
    json::append_string(out, tensor.name);
    append_number(out += ", ", "begin", tensor.begin);
    append_number(out += ", ", "end", tensor.end);
    append_member(out += ", ", "digest", to_hex(tensor.digest));
    out += '}';
  }
  out += "],\n  \"chunks\": [";
  for (const Digest& chunk : file.chunks) {
    out += &chunk == file.chunks.data() ? "\n   \"" : ",\n   \"";
    (out += to_hex(chunk)) += '"';
  }
  out += "]}";
}

}  // namespace

std::size_t common_folder(std::span<const std::string_view> paths) {
  std::string_view common = paths.front();
  common = common.substr(0, common.rfind('/') + 1);
  for (const std::string_view path : paths) {
    const auto [end, other] = std::ranges::mismatch(common, path);
    common = common.substr(0, static_cast<std::size_t>(end - common.begin()));
    common = common.substr(0, common.rfind('/') + 1);
  }
  return common.size();
}

Status check_new_file_name(std::string_view name) {
  const char* why = format::check_relative_name(name);
  if (base::first_invalid_utf8(name) != std::string_view::npos) why = "it is not UTF-8";
  if (why == nullptr) return {};
  return base::make_error(Errc::invalid_argument, "the file name " + base::shown_name(name) +
                                                      " is not allowed in a manifest: " + why + "; rename the file");
}

}  // namespace hash

inline namespace v0 {

Result<Manifest> Manifest::parse(std::string_view text) noexcept {
  return base::guarded([&] {
    std::unique_ptr<char[]> copy = hash::text_buffer(text.size());
    std::ranges::copy(text, copy.get());
    return hash::Parser(std::move(copy), text.size()).parse();
  });
}

Result<Manifest> Manifest::read(PathView path) noexcept {
  return base::guarded([&]() -> Result<Manifest> {
    const std::string name(static_cast<std::string_view>(path));
    Result<Manifest> manifest = hash::read(name);
    if (!manifest) return base::with_path(std::move(manifest).error(), name);
    return manifest;
  });
}

Result<std::string> Manifest::text() const noexcept {
  return base::guarded([&]() -> Result<std::string> {
    std::string out = "{";
    hash::append_member(out, "schema", std::string(hash::kSchema));
    hash::append_member(out += ", ", "algorithm", to_string(algorithm));
    hash::append_number(out += ", ", "chunk_bytes", chunk_bytes);
    out += ", \"files\": [";
    for (const ManifestFile& file : files) {
      if (&file != files.data()) out += ',';
      hash::append_file(out, file);
    }
    out += "]}\n";
    return out;
  });
}

const ManifestFile* Manifest::find(std::string_view name) const noexcept {
  const auto found = std::ranges::lower_bound(files, name, {}, &ManifestFile::name);
  return found != files.end() && found->name == name ? &*found : nullptr;
}

}  // namespace v0
}  // namespace safetensors
