// The rules of lint() that read bytes. Signatures need a few bytes of each file. Equal tensors are found by a keyed
// hash of their bytes: only tensors with the dtype and the shape of another tensor are read.
#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/little_endian.h"
#include "check/lint.h"
#include "file/file.h"
#include "format/header/signature.h"
#include "io/progress.h"
#include "os/regular_file.h"

namespace safetensors::check {
namespace {

constexpr std::uint64_t kMaxPadding = 64;      // spaces that are not worth a note
constexpr std::uint64_t kTailBytes = 65536;    // bytes at the end of a header in which spaces are counted
constexpr std::size_t kTensorBytes = 64;       // bytes read of a tensor for its signature
constexpr std::size_t kMaxTensors = 4096;      // tensors that are looked into
constexpr std::uint64_t kMinDuplicate = 4096;  // bytes
constexpr std::size_t kHashChunk = std::size_t{1} << 20;

// Reads ranges of a file as text, until the caller cancels.
class TextReader {
 public:
  TextReader(const File& file, const LintOptions& options) : file_(file), options_(options) {}

  [[nodiscard]] const Header& header() const { return file_.header(); }
  Result<std::string> read(std::uint64_t offset, std::uint64_t size) {
    if (options_.cancelled && options_.cancelled()) return base::make_error(Errc::cancelled, "cancelled");
    std::string text(static_cast<std::size_t>(size), '\0');
    Status status = os::read_exactly(file_.source(), offset, std::as_writable_bytes(std::span(text)));
    if (!status) return std::move(status).error();
    return text;
  }

 private:
  const File& file_;
  const LintOptions& options_;
};

bool is_byte(Dtype dtype) noexcept {
  return dtype == Dtype::U8 || dtype == Dtype::I8 || dtype == Dtype::BOOL;
}

Status lint_ends(TextReader& file, LintReport& report) {
  const std::uint64_t size = file.header().file_bytes();
  const Result<std::string> start = file.read(0, std::min<std::uint64_t>(size, format::kStartBytes));
  if (!start) return start.error();
  if (const format::FoundSignature found = format::signature_at_start(*start); !found.kind.empty())
    report.add(LintCode::foreign_signature,
               "also " + std::string(found.kind) + ": its signature is at byte " + std::to_string(found.offset));
  const std::uint64_t end_size = std::min<std::uint64_t>(size, format::kEndBytes);
  const Result<std::string> end = file.read(size - end_size, end_size);
  if (!end) return end.error();
  if (const format::FoundSignature found = format::signature_at_end(*end); !found.kind.empty())
    report.add(LintCode::foreign_signature, "also " + std::string(found.kind) + ": its end record is at byte " +
                                                std::to_string(size - end_size + found.offset));
  return {};
}

Status lint_padding(TextReader& file, LintReport& report) {
  const std::uint64_t header_end = file.header().data_start();
  const std::uint64_t size = std::min(file.header().header_bytes(), kTailBytes);
  const Result<std::string> tail = file.read(header_end - size, size);
  if (!tail) return tail.error();
  const std::uint64_t spaces = tail->size() - (tail->find_last_not_of(' ') + 1);
  if (spaces > kMaxPadding)
    report.add(LintCode::padding,
               (spaces == kTailBytes ? "at least " : "") + std::to_string(spaces) + " spaces at the end of the header",
               {}, spaces, spaces);
  return {};
}

Status lint_tensors(TextReader& file, const LintOptions& options, LintReport& report) {
  std::size_t looked_into = 0;
  for (const TensorInfo& tensor : file.header().tensors()) {
    if (!is_byte(tensor.dtype) || tensor.nbytes() < 4 || !looks_at(options, tensor)) continue;
    if (++looked_into > kMaxTensors) break;
    const Result<std::string> start =
        file.read(tensor.file_offset, std::min<std::uint64_t>(tensor.nbytes(), kTensorBytes));
    if (!start) return start.error();
    if (const std::string_view kind = format::begins_like(*start); !kind.empty())
      report.add(LintCode::embedded_file, "begins like " + std::string(kind), tensor.name, 1, tensor.nbytes());
  }
  return {};
}

using Likeness = std::pair<Dtype, std::vector<std::uint64_t>>;  // dtype and shape

// The tensors that may have equal bytes, by dtype and shape.
std::map<Likeness, std::vector<Tensor>> alike(Tensors tensors, const LintOptions& options) {
  std::map<Likeness, std::vector<Tensor>> groups;
  for (const Tensor& tensor : tensors) {
    // The shape of a tensor of unknown dtype does not give its size.
    if (tensor.nbytes() < kMinDuplicate || tensor.dtype() == Dtype::UNKNOWN) continue;
    if (!looks_at(options, tensor.info())) continue;
    const ShapeView shape = tensor.shape();
    groups[{tensor.dtype(), {shape.begin(), shape.end()}}].push_back(tensor);
  }
  std::erase_if(groups, [](const auto& group) { return group.second.size() < 2; });
  return groups;
}

// Hashes tensors. The hash of a chunk covers the hash of the chunk before it.
class TensorHasher {
 public:
  explicit TensorHasher(io::ProgressMeter& meter) : meter_(meter), buffer_(sizeof(std::uint64_t) + kHashChunk) {}

  Result<std::uint64_t> hash(const Tensor& tensor) {
    std::uint64_t hash = 0;
    for (std::uint64_t at = 0; at < tensor.nbytes();) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kHashChunk, tensor.nbytes() - at));
      base::store_u64(buffer_.data(), hash);
      const auto bytes = std::span(buffer_).subspan(sizeof hash, size);
      const std::uint64_t offset = tensor.info().file_offset + at;
      if (Status status = detail::Access<Tensor>::state(tensor).read(tensor.info(), offset, bytes); !status)
        return std::move(status).error();
      hash = base::SipHash<1, 3>::of({reinterpret_cast<const char*>(buffer_.data()), sizeof hash + size}, key_);
      if (Status status = meter_.add(size); !status) return std::move(status).error();
      at += size;
    }
    return hash;
  }

 private:
  io::ProgressMeter& meter_;
  base::HashKey key_ = base::HashKey::random();
  std::vector<std::byte> buffer_;
};

}  // namespace

Status lint_bytes(const File& file, const LintOptions& options, LintReport& report) {
  TextReader reader(file, options);
  if (Status status = lint_ends(reader, report); !status) return status;
  if (Status status = lint_padding(reader, report); !status) return status;
  return lint_tensors(reader, options, report);
}

Status lint_duplicates(Tensors tensors, const LintOptions& options, LintReport& report) {
  const std::map<Likeness, std::vector<Tensor>> groups = alike(tensors, options);
  std::uint64_t total = 0;
  for (const auto& [likeness, group] : groups) total += group.size() * group[0].nbytes();
  io::ProgressMeter meter(options.progress, total, 0, {});
  TensorHasher hasher(meter);
  for (const auto& [likeness, group] : groups) {
    std::map<std::uint64_t, std::vector<std::string_view>> names;  // by hash
    for (const Tensor& tensor : group) {
      const Result<std::uint64_t> hash = hasher.hash(tensor);
      if (!hash) return hash.error();
      names[*hash].push_back(tensor.info().name);
    }
    for (const auto& [hash, same] : names) {
      if (same.size() < 2) continue;
      const std::uint64_t bytes = (same.size() - 1) * group[0].nbytes();
      report.add(LintCode::duplicate_data,
                 std::to_string(same.size()) + " tensors with equal bytes, such as `" + std::string(same[1]) +
                     "`: " + std::to_string(bytes) + " bytes are stored more than once",
                 same[0], same.size(), bytes);
    }
  }
  return meter.finish();
}

}  // namespace safetensors::check
