// Writes a file in several calls, in any order and from several threads. A RangeSet records the ranges written. With
// it, write() refuses to write a byte twice, and commit() finds missing bytes.
#include <safetensors/writer.h>

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "format/printable.h"
#include "io/atomic_file.h"
#include "io/progress.h"
#include "write/file_head.h"
#include "write/range_set.h"

namespace safetensors {
inline namespace v0 {

using write::ByteRange;

struct Writer::State {
  State(const Header& checked, std::string_view target, const WriteOptions& options, std::uint64_t head,
        std::uint64_t file_size)
      : header(checked), path(target), data_start(head), meter(options.progress, file_size, head, target) {}

  Result<const TensorInfo*> find(std::string_view name) const;
  Result<ByteRange> locate(const TensorInfo& tensor, std::uint64_t offset, std::uint64_t size) const;
  // Returns the offset of a row in its tensor, in bytes. size: number of bytes to write there.
  Result<std::uint64_t> row_offset(const TensorInfo& tensor, std::uint64_t row, std::uint64_t size) const;
  Status write(const TensorInfo& tensor, std::uint64_t offset, std::span<const std::byte> bytes);
  // Marks a range as written before it is written, so that two threads cannot both write it.
  Status claim(const TensorInfo& tensor, ByteRange range);
  // Records the result of a write. Keeps the first failure, which every later call returns.
  Status conclude(Status status);
  Error missing(ByteRange gap) const;
  Error error(Errc code, std::string message) const { return base::make_error(code, std::move(message), path); }

  const Header header;
  const std::string path;
  const std::uint64_t data_start;
  std::unique_ptr<io::AtomicFile> file;
  io::ProgressMeter meter;

  std::mutex mutex;  // guards the members below
  write::RangeSet coverage;
  std::optional<Error> failure;
  bool closed = false;
};

namespace {

Error closed_error() {
  return base::make_error(Errc::writer_closed, "the writer was already committed or moved from");
}

std::string range_of(std::uint64_t begin, std::uint64_t end) {
  return "bytes " + std::to_string(begin) + " to " + std::to_string(end);
}

}  // namespace

Result<const TensorInfo*> Writer::State::find(std::string_view name) const {
  if (const TensorInfo* const tensor = header.find(name)) return tensor;
  return error(Errc::not_found, "no " + format::tensor_named(name) + " in the header");
}

Result<ByteRange> Writer::State::locate(const TensorInfo& tensor, std::uint64_t offset, std::uint64_t size) const {
  if (offset <= tensor.nbytes() && size <= tensor.nbytes() - offset)
    return ByteRange{tensor.begin + offset, tensor.begin + offset + size};
  return error(Errc::buffer_size, format::tensor_named(tensor.name) + ": " + std::to_string(size) + " bytes at byte " +
                                      std::to_string(offset) + " do not fit, it has " +
                                      std::to_string(tensor.nbytes()));
}

Result<std::uint64_t> Writer::State::row_offset(const TensorInfo& tensor, std::uint64_t row, std::uint64_t size) const {
  const auto refuse = [&](Errc code, const std::string& what) {
    return error(code, format::tensor_named(tensor.name) + what);
  };
  if (tensor.shape.empty()) return refuse(Errc::slice_rank, " is a scalar and has no rows");
  const std::uint64_t rows = tensor.shape[0];
  if (rows != 0 && tensor.nbytes() % rows != 0)
    return refuse(Errc::slice_bits, " has rows that do not end with a byte: write it whole");
  if (row > rows)
    return refuse(Errc::slice_index, " has " + std::to_string(rows) + " rows, the first row is " + std::to_string(row));
  const std::uint64_t row_bytes = rows == 0 ? 0 : tensor.nbytes() / rows;
  if (row_bytes == 0 ? size != 0 : size % row_bytes != 0)
    return refuse(Errc::data_length,
                  " has rows of " + std::to_string(row_bytes) + " bytes, the data " + std::to_string(size));
  return row * row_bytes;  // at most the size of the tensor
}

Status Writer::State::claim(const TensorInfo& tensor, ByteRange range) {
  const std::lock_guard lock(mutex);
  if (failure) return *failure;
  if (closed) return closed_error();
  const std::optional<ByteRange> taken = coverage.claim(range);
  if (!taken) return {};
  return error(Errc::overlapping_write, format::tensor_named(tensor.name) + ": " +
                                            range_of(taken->begin - tensor.begin, taken->end - tensor.begin) + " of " +
                                            std::to_string(tensor.nbytes()) + " were already written");
}

Status Writer::State::conclude(Status status) {
  if (status) return status;
  const std::lock_guard lock(mutex);
  if (!failure) failure = std::move(status).error();
  return *failure;
}

Error Writer::State::missing(ByteRange gap) const {
  const TensorList tensors = header.tensors();
  const auto after = std::partition_point(tensors.begin(), tensors.end(),
                                          [&](const TensorInfo& tensor) { return tensor.end <= gap.begin; });
  const TensorInfo& tensor = *after;
  return error(Errc::incomplete_write,
               format::tensor_named(tensor.name) + ": " +
                   range_of(gap.begin - tensor.begin, std::min(gap.end, tensor.end) - tensor.begin) + " of " +
                   std::to_string(tensor.nbytes()) + " were never written");
}

Writer::Writer(std::unique_ptr<State> state) noexcept : header_(state->header), state_(std::move(state)) {}
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;
Writer::~Writer() = default;

Result<Writer> Writer::create(PathView path, const Header& header, const WriteOptions& options) noexcept {
  return base::guarded([&]() -> Result<Writer> {
    const Result<std::string> text = header.text();
    if (!text) return text.error();
    const Result<std::string> head = write::file_head(*text);
    if (!head) return head.error();
    const Result<std::uint64_t> size = write::file_size(*head, header.data_bytes());
    if (!size) return size.error();
    Result<std::unique_ptr<io::AtomicFile>> file =
        io::AtomicFile::create(path, *size, write::to_atomic_file_options(options));
    if (!file) return std::move(file).error();
    auto state = std::make_unique<State>(header, path, options, head->size(), *size);
    state->file = std::move(*file);
    if (Status status = state->file->write_at(0, write::bytes_of(*head)); !status) return std::move(status).error();
    return Writer(std::move(state));
  });
}

Status Writer::State::write(const TensorInfo& tensor, std::uint64_t offset, std::span<const std::byte> bytes) {
  const Result<ByteRange> range = locate(tensor, offset, bytes.size());
  if (!range) return range.error();
  if (Status status = claim(tensor, *range); !status) return status;
  return conclude(meter.in_steps(bytes.size(), [&](std::uint64_t at, std::uint64_t size) {
    return file->write_at(data_start + range->begin + at,
                          bytes.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size)));
  }));
}

Status Writer::write(std::string_view name, std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
  return base::guarded([&]() -> Status {
    if (!state_) return closed_error();
    const Result<const TensorInfo*> tensor = state_->find(name);
    if (!tensor) return tensor.error();
    return state_->write(**tensor, offset, bytes);
  });
}

Status Writer::write_rows(std::string_view name, std::uint64_t first_row, std::span<const std::byte> bytes) noexcept {
  return base::guarded([&]() -> Status {
    if (!state_) return closed_error();
    const Result<const TensorInfo*> tensor = state_->find(name);
    if (!tensor) return tensor.error();
    const Result<std::uint64_t> offset = state_->row_offset(**tensor, first_row, bytes.size());
    if (!offset) return offset.error();
    return state_->write(**tensor, *offset, bytes);
  });
}

Status Writer::copy(std::string_view name, const Tensor& from) noexcept {
  return base::guarded([&]() -> Status {
    if (!state_) return closed_error();
    const Result<const TensorInfo*> found = state_->find(name);
    if (!found) return found.error();
    const TensorInfo* const tensor = *found;
    if (from.dtype() != tensor->dtype)
      return state_->error(Errc::dtype_mismatch, format::tensor_named(name) + ": is " +
                                                     std::string(to_string(tensor->dtype)) + ", copied from " +
                                                     std::string(to_string(from.dtype())));
    if (!std::ranges::equal(from.shape(), tensor->shape))
      return state_->error(Errc::data_length, format::tensor_named(name) + ": has shape " + to_string(tensor->shape) +
                                                  ", copied from " + to_string(from.shape()));
    const ByteRange range{tensor->begin, tensor->end};
    if (Status status = state_->claim(*tensor, range); !status) return status;

    const File file = from.file();
    const std::uint64_t offset = from.info().file_offset;
    const std::uint64_t target = state_->data_start + range.begin;
    const Source::Memory memory = file.source().memory(offset, tensor->nbytes());
    std::uint64_t reached = 0;
    bool source_failed = false;
    Status status = state_->meter.in_steps(tensor->nbytes(), [&](std::uint64_t at, std::uint64_t size) {
      reached = at;
      if (memory.bytes.size() != tensor->nbytes())
        return state_->file->copy_at(target + at, file.source(), offset + at, size, &source_failed);
      return state_->file->write_at(target + at,
                                    memory.bytes.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size)));
    });
    if (!source_failed) return state_->conclude(std::move(status));
    // Only reading the source failed. So the tensor counts as not written, and the caller may try again.
    state_->meter.take_back(reached);
    const std::lock_guard lock(state_->mutex);
    state_->coverage.release(range);
    return base::with_path(std::move(status).error(), file.path());
  });
}

Status Writer::commit() noexcept {
  return base::guarded([&]() -> Status {
    if (!state_) return closed_error();
    {
      const std::lock_guard lock(state_->mutex);
      if (state_->failure) return *state_->failure;
      if (state_->closed) return closed_error();
      if (const std::optional<ByteRange> gap = state_->coverage.first_gap(state_->header.data_bytes()))
        return state_->missing(*gap);
      state_->closed = true;
    }
    return state_->conclude(state_->file->commit());
  });
}

}  // namespace v0
}  // namespace safetensors
