// Compares a file with its entry in a manifest. One pass over the file computes every digest that the entry has. The
// digests of chunks tell where a file is damaged, and the digests of tensors tell which tensors are damaged. If all
// chunks are right and another digest is not, the manifest contradicts itself, and the range of that digest is
// reported.
#include <safetensors/hash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "file/file.h"
#include "hash/chunks.h"
#include "hash/hasher.h"
#include "os/regular_file.h"

namespace safetensors {
namespace hash {
namespace {

Status check_size(const File& file, const ManifestFile& expected, const Manifest& manifest) {
  // parse() and make() guarantee this, but a caller can change the manifest.
  if (!is_chunk_size(manifest.chunk_bytes) ||
      chunk_count(expected.bytes, manifest.chunk_bytes) != expected.chunks.size())
    return base::make_error(Errc::invalid_argument, "the chunks of the manifest do not match the size of its file");
  const std::uint64_t found = file.header().file_bytes();
  if (found == expected.bytes) return {};
  return base::make_error(Errc::data_length, "the file has " + std::to_string(found) + " bytes, the manifest has " +
                                                 std::to_string(expected.bytes));
}

Status check_tensors(const File& file, const ManifestFile& expected) {
  const TensorList found = file.header().tensors();
  const auto fail = [](const std::string& what) { return base::make_error(Errc::invalid_argument, what); };
  if (file.header().data_start() != expected.data_start)
    return fail("the data begins at byte " + std::to_string(file.header().data_start()) + ", in the manifest at byte " +
                std::to_string(expected.data_start));
  for (const ManifestTensor& tensor : expected.tensors) {
    const TensorInfo* const info = file.header().find(tensor.name);
    if (info == nullptr) return fail("tensor " + base::shown_name(tensor.name) + " of the manifest is not in the file");
    if (info->file_offset != tensor.begin || info->file_offset + info->nbytes() != tensor.end)
      return fail("tensor " + base::shown_name(tensor.name) + " has another range than in the manifest");
  }
  if (found.size() == expected.tensors.size()) return {};
  std::vector<std::string_view> known;
  for (const ManifestTensor& tensor : expected.tensors) known.push_back(tensor.name);
  std::ranges::sort(known);
  for (const TensorInfo& info : found) {
    if (!std::ranges::binary_search(known, info.name))
      return fail("tensor " + base::shown_name(info.name) + " is not in the manifest");
  }
  return fail("the manifest names a tensor twice");
}

// The tensors whose digests differ, sorted by `begin`. A tensor that the file does not have at this range is left out:
// check_tensors() reports it, unless the header differs.
std::vector<const ManifestTensor*> other_tensors(const File& file, const FileHashes& hashes,
                                                 const ManifestFile& expected) {
  std::map<std::string_view, const ManifestTensor*> known;
  for (const ManifestTensor& tensor : expected.tensors) known.emplace(tensor.name, &tensor);
  std::vector<const ManifestTensor*> others;
  const TensorList found = file.header().tensors();
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto entry = known.find(found[i].name);
    if (entry == known.end() || entry->second->begin != found[i].file_offset) continue;
    if (entry->second->end != found[i].file_offset + found[i].nbytes()) continue;
    if (entry->second->digest != hashes.tensors[i]) others.push_back(entry->second);
  }
  return others;
}

// Collects the ranges whose digests differ.
std::vector<DamagedRange> differences(const File& file, const FileHashes& hashes, const ManifestFile& expected,
                                      std::uint64_t chunk_bytes) {
  const bool header = hashes.header != expected.header;
  const std::vector<const ManifestTensor*> tensors = other_tensors(file, hashes, expected);
  std::vector<bool> named(tensors.size());  // by a chunk
  std::vector<DamagedRange> ranges;
  for (std::size_t chunk = 0; chunk < expected.chunks.size(); ++chunk) {
    if (hashes.chunks[chunk] == expected.chunks[chunk]) continue;
    DamagedRange range{.begin = chunk * chunk_bytes};
    range.end = std::min(expected.bytes, range.begin + chunk_bytes);
    range.header = header && range.begin < expected.data_start;
    // Tensors do not overlap, so their ends are sorted, too.
    auto tensor = std::ranges::upper_bound(tensors, range.begin, {}, [](const auto* each) { return each->end; });
    for (; tensor != tensors.end() && (*tensor)->begin < range.end; ++tensor) {
      named[static_cast<std::size_t>(tensor - tensors.begin())] = true;
      range.tensors.push_back((*tensor)->name);
    }
    ranges.push_back(std::move(range));
  }
  const bool chunks_differ = !ranges.empty();
  if (header && !(chunks_differ && ranges.front().header))
    ranges.push_back({.begin = 0, .end = expected.data_start, .header = true});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!named[i])
      ranges.push_back({.begin = tensors[i]->begin, .end = tensors[i]->end, .tensors = {tensors[i]->name}});
  }
  if (!chunks_differ && *hashes.data != expected.data)
    ranges.push_back({.begin = expected.data_start, .end = expected.bytes, .data = true});
  if (!chunks_differ && *hashes.file != expected.digest)
    ranges.push_back({.begin = 0, .end = expected.bytes, .file = true});
  std::ranges::stable_sort(ranges, {}, &DamagedRange::begin);
  return ranges;
}

// The digests of a file. The digest of its header covers the bytes that the header in use was parsed from.
Result<FileHashes> hash_for(const File& file, const Manifest& manifest, const ManifestOptions& options) {
  Result<FileHashes> hashes = hash_file(file, {.algorithm = manifest.algorithm,
                                               .data = true,
                                               .tensors = true,
                                               .chunk_bytes = manifest.chunk_bytes,
                                               .threads = options.threads,
                                               .progress = options.progress});
  if (!hashes) return hashes;
  const Result<std::string> header = file::read_header(file);
  if (!header) return header.error();
  const Result<Digest> digest = hash_bytes(std::as_bytes(std::span(*header)), manifest.algorithm);
  if (!digest) return digest.error();
  hashes->header = *digest;
  return hashes;
}

Result<std::vector<DamagedRange>> compare(const File& file, const ManifestFile& expected, const Manifest& manifest,
                                          const ManifestOptions& options) {
  if (Status status = check_size(file, expected, manifest); !status) return std::move(status).error();
  const Result<FileHashes> hashes = hash_for(file, manifest, options);
  if (!hashes) return hashes.error();
  // If the header differs, its tensors may be others.
  if (hashes->header == expected.header) {
    if (Status status = check_tensors(file, expected); !status) return std::move(status).error();
  }
  return differences(file, *hashes, expected, manifest.chunk_bytes);
}

// Reads whole chunks, checks them, and returns the wanted bytes of them.
class VerifiedSource final : public Source {
 public:
  VerifiedSource(const File& file, const ManifestFile& expected, const Manifest& manifest)
      : file_(file),
        bytes_(expected.bytes),
        chunk_bytes_(manifest.chunk_bytes),
        algorithm_(manifest.algorithm),
        chunks_(expected.chunks) {}

  [[nodiscard]] Result<std::uint64_t> size() const noexcept override { return bytes_; }
  [[nodiscard]] bool concurrent() const noexcept override { return file_.source().concurrent(); }
  [[nodiscard]] std::uint64_t request_bytes() const noexcept override { return file_.source().request_bytes(); }

  [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset,
                                            std::span<std::byte> destination) const noexcept override {
    return base::guarded([&]() -> Result<std::size_t> {
      if (offset >= bytes_) return std::size_t{0};
      const std::uint64_t end = offset + std::min<std::uint64_t>(destination.size(), bytes_ - offset);
      std::vector<std::byte> bounce;
      for (std::uint64_t at = offset; at < end;) {
        const std::uint64_t begin = at / chunk_bytes_ * chunk_bytes_;
        const auto size = static_cast<std::size_t>(std::min(chunk_bytes_, bytes_ - begin));
        const auto count = static_cast<std::size_t>(std::min(end, begin + size) - at);
        std::byte* const out = destination.data() + (at - offset);
        const bool whole = count == size;
        if (!whole) bounce.resize(static_cast<std::size_t>(chunk_bytes_));
        const std::span<std::byte> chunk = whole ? std::span(out, size) : std::span(bounce).first(size);
        if (Status status = read_chunk(begin, chunk); !status) return std::move(status).error();
        if (!whole) std::memcpy(out, chunk.data() + (at - begin), count);
        at += count;
      }
      return static_cast<std::size_t>(end - offset);
    });
  }

 private:
  Status read_chunk(std::uint64_t begin, std::span<std::byte> chunk) const {
    if (Status status = os::read_exactly(file_.source(), begin, chunk); !status) return status;
    const Result<Digest> digest = hash_bytes(chunk, algorithm_);
    if (!digest) return digest.error();
    if (*digest == chunks_[static_cast<std::size_t>(begin / chunk_bytes_)]) return {};
    Error error = base::make_error(Errc::read_failed, "the bytes [" + std::to_string(begin) + ", " +
                                                          std::to_string(begin + chunk.size()) +
                                                          ") of the file are not those of the manifest");
    error.offset = begin;
    error.path = file_.path();
    return error;
  }

  const File file_;
  const std::uint64_t bytes_;
  const std::uint64_t chunk_bytes_;
  const HashAlgorithm algorithm_;
  const std::vector<Digest> chunks_;
};

}  // namespace
}  // namespace hash

inline namespace v0 {

Result<std::vector<DamagedRange>> verify_file(const File& file, const ManifestFile& expected, const Manifest& manifest,
                                              const ManifestOptions& options) noexcept {
  return base::guarded([&]() -> Result<std::vector<DamagedRange>> {
    Result<std::vector<DamagedRange>> ranges = hash::compare(file, expected, manifest, options);
    if (!ranges) return base::with_path(std::move(ranges).error(), file.path());
    return ranges;
  });
}

Result<std::shared_ptr<const Source>> verified_source(const File& file, const ManifestFile& expected,
                                                      const Manifest& manifest) noexcept {
  return base::guarded([&]() -> Result<std::shared_ptr<const Source>> {
    if (Status status = hash::check_size(file, expected, manifest); !status)
      return base::with_path(std::move(status).error(), file.path());
    const Result<std::unique_ptr<hash::Hasher>> possible = hash::make_hasher(manifest.algorithm);
    if (!possible) return possible.error();
    return std::shared_ptr<const Source>(std::make_shared<hash::VerifiedSource>(file, expected, manifest));
  });
}

}  // namespace v0
}  // namespace safetensors
