// Packs the headers of a checkpoint. All integers are little-endian and have 64 bits:
//
//   mark (8 bytes), version, number of files, 1 with an index or 0, size of index_metadata, index_metadata,
//   per file: size of name, size of text, file size, size of visible, name, text, visible
//
// There is no checksum: a reader checks every text by all rules of the format.
#include "format/header/packed_headers.h"

#include <cstddef>
#include <span>

#include "base/error.h"
#include "base/little_endian.h"

namespace safetensors::format {
namespace {

constexpr std::string_view kMark = "STheader";
constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kInteger = sizeof(std::uint64_t);
constexpr std::size_t kFileIntegers = 4;

void append(std::string& out, std::uint64_t value) {
  std::byte bytes[kInteger];
  base::store_u64(bytes, value);
  out.append(reinterpret_cast<const char*>(bytes), kInteger);
}

Error invalid(std::size_t offset, const std::string& detail) {
  Error error = base::make_error(Errc::invalid_argument, "invalid headers of a checkpoint: " + detail);
  error.offset = offset;
  return error;
}

// Takes parts from the front. If one part is missing, all later parts are missing, too.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) noexcept : bytes_(bytes) {}

  std::string_view take(std::uint64_t size) noexcept {
    if (missing_ || size > remaining()) {
      missing_ = true;
      return {};
    }
    const std::string_view part = bytes_.substr(offset_, static_cast<std::size_t>(size));
    offset_ += part.size();
    return part;
  }
  std::uint64_t integer() noexcept {
    const std::string_view part = take(kInteger);
    return missing_ ? 0 : base::load_u64(std::as_bytes(std::span(part)).data());
  }

  [[nodiscard]] std::size_t offset() const noexcept { return offset_; }
  [[nodiscard]] std::size_t remaining() const noexcept { return bytes_.size() - offset_; }
  [[nodiscard]] bool missing() const noexcept { return missing_; }
  [[nodiscard]] Error cut_off() const { return invalid(offset_, "they end too early"); }

 private:
  std::string_view bytes_;
  std::size_t offset_ = 0;
  bool missing_ = false;
};

PackedFile unpack_file(Unpacker& from) noexcept {
  PackedFile file;
  const std::uint64_t name = from.integer();
  const std::uint64_t text = from.integer();
  file.file_size = from.integer();
  const std::uint64_t visible = from.integer();
  file.name = from.take(name);
  file.text = from.take(text);
  file.visible = from.take(visible);
  return file;
}

}  // namespace

std::string pack_headers(const PackedHeaders& headers) {
  std::size_t size = kMark.size() + 4 * kInteger + headers.index_metadata.size();
  for (const PackedFile& file : headers.files)
    size += kFileIntegers * kInteger + file.name.size() + file.text.size() + file.visible.size();
  std::string out;
  out.reserve(size);
  out += kMark;
  for (const std::uint64_t value : {kVersion, std::uint64_t{headers.files.size()}, std::uint64_t{headers.has_index},
                                    std::uint64_t{headers.index_metadata.size()}})
    append(out, value);
  out += headers.index_metadata;
  for (const PackedFile& file : headers.files) {
    append(out, file.name.size());
    append(out, file.text.size());
    append(out, file.file_size);
    append(out, file.visible.size());
    out.append(file.name).append(file.text).append(file.visible);
  }
  return out;
}

Result<PackedHeaders> unpack_headers(std::string_view bytes) {
  Unpacker from(bytes);
  if (from.take(kMark.size()) != kMark)
    return invalid(0, "they do not begin with `" + std::string(kMark) + "` (use the bytes that headers() returned)");
  const std::uint64_t version = from.integer();
  if (!from.missing() && version != kVersion)
    return base::make_error(Errc::unsupported, "headers of a checkpoint have version " + std::to_string(version) +
                                                   ", expected " + std::to_string(kVersion) +
                                                   " (use one version of safetensors in all processes)");
  const std::uint64_t count = from.integer();
  const std::size_t index_offset = from.offset();
  const std::uint64_t has_index = from.integer();
  PackedHeaders headers;
  headers.index_metadata = from.take(from.integer());
  if (from.missing()) return from.cut_off();
  if (has_index > 1 || (has_index == 0 && !headers.index_metadata.empty()))
    return invalid(index_offset, "metadata of an index without an index");
  headers.has_index = has_index == 1;
  // Bound the count before memory is allocated for it.
  if (count > from.remaining() / (kFileIntegers * kInteger)) return from.cut_off();
  headers.files.reserve(static_cast<std::size_t>(count));
  for (std::uint64_t i = 0; i < count; ++i) {
    headers.files.push_back(unpack_file(from));
    if (from.missing()) return from.cut_off();
  }
  if (from.remaining() != 0)
    return invalid(from.offset(), std::to_string(from.remaining()) + " bytes after the last file");
  return headers;
}

}  // namespace safetensors::format
