// The digests of one file. The digests of a file, of its data and of its tensors cover nearly the same bytes, so one
// pass over the file feeds a lane for each of them. Digests of tensors alone need no order: then each thread reads a
// tensor of its own.
#include <safetensors/hash.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "format/header/header_writer.h"
#include "hash/blake3_tree.h"
#include "hash/chunks.h"
#include "hash/hasher.h"
#include "hash/ranges.h"
#include "hash/scan.h"
#include "hash/unordered_scan.h"
#include "io/progress.h"
#include "os/parallel.h"

namespace safetensors {
namespace hash {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
#if defined(SAFETENSORS_HAVE_BLAKE3)
constexpr std::size_t kTreeBlockBytes = std::size_t{256} << 10;  // a buffer of this size stays in the cache of a core
#endif

unsigned threads_of(const HashOptions& options) {
  return options.threads == 0 ? os::usable_processors() : options.threads;
}

// Each task is a tensor.
class TensorTasks final : public os::Tasks {
 public:
  // tensors: of the file.
  TensorTasks(const File& file, std::span<const TensorInfo* const> tensors, HashAlgorithm algorithm,
              io::ProgressMeter& meter, std::vector<Digest>& digests)
      : file_(file), tensors_(tensors), algorithm_(algorithm), meter_(meter), digests_(digests) {
    digests_.resize(tensors_.size());
  }

  // Hashes tensors until none is left. The argument is the number of the thread.
  [[nodiscard]] Status run(std::size_t) noexcept override {
    return base::guarded([&]() -> Status {
      const Result<std::unique_ptr<Hasher>> hasher = make_hasher(algorithm_);
      if (!hasher) return hasher.error();
      std::vector<std::byte> buffer(kBlockBytes);
      for (std::size_t index = next_++; index < tensors_.size(); index = next_++) {
        if (Status status = hash_tensor(index, **hasher, buffer); !status) {
          next_ = tensors_.size();
          return status;
        }
      }
      return {};
    });
  }

 private:
  [[nodiscard]] Status hash_tensor(std::size_t index, Hasher& hasher, std::span<std::byte> buffer) {
    const TensorInfo& tensor = *tensors_[index];
    const std::uint64_t end = tensor.file_offset + tensor.nbytes();
    for (std::uint64_t offset = tensor.file_offset; offset < end;) {
      const std::span<std::byte> bytes =
          buffer.first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), end - offset)));
      if (Status status = os::read_exactly(file_.source(), offset, bytes); !status) return status;
      hasher.update(bytes);
      offset += bytes.size();
      if (Status status = meter_.add(bytes.size()); !status) return status;
    }
    const Result<Digest> digest = hasher.finish();
    if (!digest) return digest.error();
    digests_[index] = *digest;
    return {};
  }

  const File& file_;
  const std::span<const TensorInfo* const> tensors_;
  const HashAlgorithm algorithm_;
  io::ProgressMeter& meter_;
  std::vector<Digest>& digests_;
  std::atomic<std::size_t> next_{0};
};

// The digests of everything but the header.
class FilePass {
 public:
  FilePass(const File& file, const HashOptions& options)
      : options_(options),
        file_(file),
        header_(file.header()),
        meter_(options.progress, header_.file_bytes(), 0, file.path(), std::this_thread::get_id()),
        block_bytes_(block_bytes(options)),
        scan_(file.source(), header_.file_bytes(), block_bytes_, meter_) {}

  Status run(FileHashes& hashes) {
    if (options_.file && !begin_tree()) {
      if (Status status = add_range(whole_, 0); !status) return status;
    }
    if (options_.data) {
      if (Status status = add_range(data_, header_.data_start()); !status) return status;
    }
    if (options_.tensors) {
      if (Status status = add_tensors(hashes.tensors); !status) return status;
    }
    if (Status status = scan(unordered_consumer(hashes.chunks)); !status) return status;
    if (Status status = meter_.finish(); !status) return status;
    finish_tree(hashes.file);
    if (Status status = finish_range(whole_, hashes.file); !status) return status;
    if (Status status = finish_range(data_, hashes.data); !status) return status;
    return tensors_ ? tensors_->finish() : Status();
  }

 private:
  Status add_range(std::unique_ptr<RangeDigest>& range, std::uint64_t begin) {
    Result<std::unique_ptr<Hasher>> hasher = make_hasher(options_.algorithm);
    if (!hasher) return std::move(hasher).error();
    range = std::make_unique<RangeDigest>(*std::move(hasher), begin, header_.file_bytes());
    scan_.add_ordered([digest = range.get()](std::uint64_t offset, std::span<const std::byte> bytes) {
      digest->take(offset, bytes);
      return Status();
    });
    return {};
  }
  static Status finish_range(const std::unique_ptr<RangeDigest>& range, std::optional<Digest>& out) {
    if (!range) return {};
    const Result<Digest> digest = range->finish();
    if (!digest) return digest.error();
    out = *digest;
    return {};
  }
  Status add_tensors(std::vector<Digest>& digests) {
    Result<std::unique_ptr<Hasher>> hasher = make_hasher(options_.algorithm);
    if (!hasher) return std::move(hasher).error();
    tensors_ = std::make_unique<TensorDigests>(*std::move(hasher), header_.tensors(), digests);
    scan_.add_ordered([lane = tensors_.get()](std::uint64_t offset, std::span<const std::byte> bytes) {
      return lane->take(offset, bytes);
    });
    return {};
  }
  // unordered: may be empty.
  Status scan(UnorderedScan::Consumer unordered) {
    if (whole_ || data_ || tensors_) {
      if (unordered) scan_.set_unordered(std::move(unordered));
      return scan_.run_all(threads_of(options_));
    }
    return UnorderedScan(file_, block_bytes_, meter_, std::move(unordered)).run_all(threads_of(options_));
  }
  // The digests that need no order: those of the chunks, and the tree of BLAKE3.
  UnorderedScan::Consumer unordered_consumer(std::vector<Digest>& chunks) {
    const std::uint64_t bytes = options_.chunk_bytes;
    if (bytes != 0) chunks.resize(static_cast<std::size_t>(chunk_count(header_.file_bytes(), bytes)));
    if (bytes == 0 && !has_tree()) return nullptr;
    return [&chunks, bytes, this](std::uint64_t offset, std::span<const std::byte> block) -> Status {
      take_into_tree(offset, block);
      if (bytes == 0) return {};
      const Result<Digest> digest = hash_bytes(block, options_.algorithm);
      if (!digest) return digest.error();
      chunks[static_cast<std::size_t>(offset / bytes)] = *digest;
      return {};
    };
  }

#if defined(SAFETENSORS_HAVE_BLAKE3)
  static std::size_t block_bytes(const HashOptions& options) {
    if (options.chunk_bytes != 0) return static_cast<std::size_t>(options.chunk_bytes);
    const bool tree_only = options.algorithm == HashAlgorithm::blake3 && !options.data && !options.tensors;
    return tree_only ? kTreeBlockBytes : kBlockBytes;
  }
  bool begin_tree() {
    if (options_.algorithm == HashAlgorithm::blake3) tree_.emplace(header_.file_bytes(), block_bytes_);
    return has_tree();
  }
  [[nodiscard]] bool has_tree() const {
    return tree_.has_value();
  }
  void take_into_tree(std::uint64_t offset, std::span<const std::byte> block) {
    if (tree_) tree_->take(offset, block);
  }
  void finish_tree(std::optional<Digest>& out) {
    if (tree_) out = tree_->finish();
  }
  std::optional<Blake3Tree> tree_;
#else
  static std::size_t block_bytes(const HashOptions& options) {
    return options.chunk_bytes == 0 ? kBlockBytes : static_cast<std::size_t>(options.chunk_bytes);
  }
  static bool begin_tree() {
    return false;
  }
  static bool has_tree() {
    return false;
  }
  static void take_into_tree(std::uint64_t, std::span<const std::byte>) {}
  static void finish_tree(std::optional<Digest>&) {}
#endif

  const HashOptions& options_;
  const File& file_;
  const Header& header_;
  io::ProgressMeter meter_;
  const std::size_t block_bytes_;
  Scan scan_;
  std::unique_ptr<RangeDigest> whole_;
  std::unique_ptr<RangeDigest> data_;
  std::unique_ptr<TensorDigests> tensors_;
};

Status hash_tensors(const File& file, const HashOptions& options, FileHashes& hashes) {
  std::vector<const TensorInfo*> tensors;
  std::uint64_t bytes = 0;
  for (const TensorInfo& tensor : file.header().tensors()) {
    if (options.select && !options.select(tensor)) continue;
    tensors.push_back(&tensor);
    bytes += tensor.nbytes();
  }
  io::ProgressMeter meter(options.progress, bytes, 0, file.path(), std::this_thread::get_id());
  TensorTasks tasks(file, tensors, options.algorithm, meter, hashes.tensors);
  const unsigned threads = threads_of(options);
  if (Status status = os::run_parallel(tasks, threads, threads); !status) return status;
  return meter.finish();
}

Result<FileHashes> hash_all(const File& file, const HashOptions& options) {
  if (options.chunk_bytes != 0 && !is_chunk_size(options.chunk_bytes))
    return base::make_error(Errc::invalid_argument, "chunks of " + std::to_string(options.chunk_bytes) +
                                                        " bytes: expected a power of two from 65536 to 16777216");
  const bool ordered = options.file || options.data || options.chunk_bytes != 0;
  if (options.select && ordered)
    return base::make_error(Errc::invalid_argument,
                            "a selection is for the digests of tensors only: found another digest, expected none");
  Result<std::unique_ptr<Hasher>> hasher = make_hasher(options.algorithm);
  if (!hasher) return std::move(hasher).error();
  FileHashes hashes;
  std::vector<std::byte> buffer(kBlockBytes);
  const Result<Digest> header = hash_range(file.source(), 0, file.header().data_start(), **hasher, buffer);
  if (!header) return header.error();
  hashes.header = *header;
  Status status;
  if (ordered) {
    status = FilePass(file, options).run(hashes);
  } else if (options.tensors) {
    status = hash_tensors(file, options, hashes);
  }
  if (!status) return std::move(status).error();
  return hashes;
}

// The bytes before the data, in a file that has only the metadata of training.
Result<std::string> training_head(const File& file) {
  format::HeaderWriter writer;
  writer.begin_metadata();
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with("ss_")) writer.pair(key, value);
  }
  writer.end_metadata();
  writer.tensors(file.header());
  std::string text = std::move(writer).finish();
  if (Status status = format::pad_text(text, 8, 0); !status) return std::move(status).error();
  std::string head;
  for (int i = 0; i < 8; ++i) head += static_cast<char>(std::uint64_t{text.size()} >> (8 * i) & 0xFF);
  return head + text;
}

Result<std::string> legacy_hash(const File& file) {
  constexpr std::uint64_t kBegin = 0x100000;
  constexpr std::uint64_t kBytes = 0x10000;
  const Result<std::string> head = training_head(file);
  if (!head) return head.error();
  const std::uint64_t size = head->size() + file.header().data_bytes();
  std::vector<std::byte> bytes;
  for (std::uint64_t offset = kBegin; offset < std::min(size, kBegin + kBytes) && offset < head->size(); ++offset)
    bytes.push_back(static_cast<std::byte>((*head)[static_cast<std::size_t>(offset)]));
  const std::uint64_t data_begin = std::max<std::uint64_t>(kBegin, head->size());
  const std::uint64_t data_end = std::min(size, kBegin + kBytes);
  if (data_begin < data_end) {
    const std::size_t kept = bytes.size();
    bytes.resize(kept + static_cast<std::size_t>(data_end - data_begin));
    const std::uint64_t offset = file.header().data_start() + (data_begin - head->size());
    if (Status status = os::read_exactly(file.source(), offset, std::span(bytes).subspan(kept)); !status)
      return std::move(status).error();
  }
  const Result<Digest> digest = hash_bytes(bytes);
  if (!digest) return digest.error();
  return to_hex(*digest).substr(0, 8);
}

Error with_path(Error error, const File& file) {
  return base::with_path(std::move(error), file.path());
}

}  // namespace
}  // namespace hash

inline namespace v0 {

Result<FileHashes> hash_file(const File& file, const HashOptions& options) noexcept {
  return base::guarded([&]() -> Result<FileHashes> {
    Result<FileHashes> hashes = hash::hash_all(file, options);
    if (!hashes) return hash::with_path(std::move(hashes).error(), file);
    return hashes;
  });
}

Result<ModelHashes> model_hashes(const File& file, const HashOptions& options) noexcept {
  return base::guarded([&]() -> Result<ModelHashes> {
    const HashOptions data{.file = false, .data = true, .threads = options.threads, .progress = options.progress};
    Result<FileHashes> hashes = hash_file(file, data);
    if (!hashes) return std::move(hashes).error();
    Result<std::string> legacy = hash::legacy_hash(file);
    if (!legacy) return hash::with_path(std::move(legacy).error(), file);
    return ModelHashes{.model = to_hex(*hashes->data), .legacy = *std::move(legacy)};
  });
}

}  // namespace v0
}  // namespace safetensors
