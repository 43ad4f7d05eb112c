// Compares a file with its entry in a manifest. The digests of chunks cover every byte and need no order, so all
// threads hash chunks. Only the tensors of a damaged chunk are hashed again, to say which of them differ.
#include <safetensors/hash.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "hash/chunks.h"
#include "hash/hasher.h"
#include "hash/ranges.h"
#include "hash/shown_name.h"
#include "hash/unordered_scan.h"
#include "io/progress.h"
#include "os/parallel.h"

namespace safetensors {
namespace hash {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

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
    if (info == nullptr) return fail("tensor " + shown_name(tensor.name) + " of the manifest is not in the file");
    if (info->file_offset != tensor.begin || info->file_offset + info->nbytes() != tensor.end)
      return fail("tensor " + shown_name(tensor.name) + " has another range than in the manifest");
  }
  if (found.size() == expected.tensors.size()) return {};
  std::vector<std::string_view> known;
  for (const ManifestTensor& tensor : expected.tensors) known.push_back(tensor.name);
  std::ranges::sort(known);
  for (const TensorInfo& info : found) {
    if (!std::ranges::binary_search(known, info.name))
      return fail("tensor " + shown_name(info.name) + " is not in the manifest");
  }
  return fail("the manifest names a tensor twice");
}

// The indexes of the chunks that differ.
Result<std::vector<std::uint64_t>> damaged_chunks(const File& file, const ManifestFile& expected,
                                                  const Manifest& manifest, const ManifestOptions& options) {
  io::ProgressMeter meter(options.progress, expected.bytes, 0, file.path(), std::this_thread::get_id());
  std::mutex mutex;
  std::vector<std::uint64_t> damaged;
  const auto compare = [&](std::uint64_t offset, std::span<const std::byte> bytes) -> Status {
    return base::guarded([&]() -> Status {
      const Result<Digest> digest = hash_bytes(bytes, manifest.algorithm);
      if (!digest) return digest.error();
      const std::uint64_t chunk = offset / manifest.chunk_bytes;
      if (*digest == expected.chunks[static_cast<std::size_t>(chunk)]) return {};
      const std::lock_guard lock(mutex);
      damaged.push_back(chunk);
      return {};
    });
  };
  UnorderedScan scan(file, static_cast<std::size_t>(manifest.chunk_bytes), meter, compare);
  if (Status status = scan.run_all(options.threads == 0 ? os::usable_processors() : options.threads); !status)
    return std::move(status).error();
  if (Status status = meter.finish(); !status) return std::move(status).error();
  std::ranges::sort(damaged);
  return damaged;
}

// Says what differs in a chunk: hashes the header and the tensors that it overlaps.
class Damage {
 public:
  Damage(const File& file, const ManifestFile& expected, const Manifest& manifest, Hasher& hasher)
      : file_(file), expected_(expected), manifest_(manifest), hasher_(hasher), buffer_(kBufferBytes) {}

  Result<DamagedRange> look_at(std::uint64_t chunk) {
    DamagedRange range{.begin = chunk * manifest_.chunk_bytes};
    range.end = std::min(expected_.bytes, range.begin + manifest_.chunk_bytes);
    if (range.begin < expected_.data_start) {
      const Result<bool> differs = is_other(0, expected_.data_start, expected_.header);
      if (!differs) return differs.error();
      range.header = *differs;
    }
    // Tensors do not overlap, so their ends are sorted, too.
    auto tensor = std::ranges::upper_bound(expected_.tensors, range.begin, {}, &ManifestTensor::end);
    for (; tensor != expected_.tensors.end() && tensor->begin < range.end; ++tensor) {
      if (tensor->begin == tensor->end) continue;
      if (tensor->name == last_) {  // the chunk before ends in this tensor
        range.tensors.push_back(tensor->name);
        continue;
      }
      const Result<bool> differs = is_other(tensor->begin, tensor->end, tensor->digest);
      if (!differs) return differs.error();
      if (!*differs) continue;
      range.tensors.push_back(tensor->name);
      last_ = tensor->name;
    }
    return range;
  }

 private:
  Result<bool> is_other(std::uint64_t begin, std::uint64_t end, const Digest& digest) {
    const Result<Digest> found = hash_range(file_.source(), begin, end, hasher_, buffer_);
    if (!found) return found.error();
    return *found != digest;
  }

  const File& file_;
  const ManifestFile& expected_;
  const Manifest& manifest_;
  Hasher& hasher_;
  std::vector<std::byte> buffer_;
  std::optional<std::string> last_;  // the last tensor that differs
};

Result<std::vector<DamagedRange>> compare(const File& file, const ManifestFile& expected, const Manifest& manifest,
                                          const ManifestOptions& options) {
  if (Status status = check_size(file, expected, manifest); !status) return std::move(status).error();
  const Result<std::unique_ptr<Hasher>> hasher = make_hasher(manifest.algorithm);
  if (!hasher) return hasher.error();
  const Result<std::vector<std::uint64_t>> chunks = damaged_chunks(file, expected, manifest, options);
  if (!chunks) return chunks.error();
  std::vector<DamagedRange> ranges;
  Damage damage(file, expected, manifest, **hasher);
  for (const std::uint64_t chunk : *chunks) {
    Result<DamagedRange> range = damage.look_at(chunk);
    if (!range) return std::move(range).error();
    ranges.push_back(*std::move(range));
  }
  // If the header differs, its tensors may be others.
  if (ranges.empty() || !ranges.front().header) {
    if (Status status = check_tensors(file, expected); !status) return std::move(status).error();
  }
  return ranges;
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
