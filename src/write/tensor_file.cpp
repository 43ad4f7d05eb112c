// Writes a file of tensors in several calls. A RangeSet records the ranges written. With it, write() refuses to write a
// byte twice, and check_complete() finds missing bytes.
#include "write/tensor_file.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "format/printable.h"
#include "write/file_head.h"

namespace safetensors::write {
namespace {

std::string range_of(std::uint64_t begin, std::uint64_t end) {
  return "bytes " + std::to_string(begin) + " to " + std::to_string(end);
}

}  // namespace

Error closed_error() {
  return base::make_error(Errc::writer_closed, "the writer was already committed or moved from");
}

Status WriteSession::conclude(Status status) {
  if (status) return status;
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(status).error();
  return *failure_;
}

Status WriteSession::if_open(const std::function<Status()>& change) {
  const std::lock_guard lock(mutex_);
  if (failure_) return *failure_;
  if (closed_) return closed_error();
  return change();
}

Status WriteSession::close_after(const std::function<Status()>& check) {
  return if_open([&] {
    Status status = check();
    if (status) closed_ = true;
    return status;
  });
}

void WriteSession::release(RangeSet& written, ByteRange range) {
  const std::lock_guard lock(mutex_);
  written.release(range);
}

Result<FileHead> head_of(const Header& header) {
  const Result<std::string> text = header.text();
  if (!text) return text.error();
  Result<std::string> head = file_head(*text);
  if (!head) return std::move(head).error();
  const Result<std::uint64_t> size = file_size(*head, header.data_bytes());
  if (!size) return size.error();
  return FileHead{*std::move(head), *size};
}

Result<std::unique_ptr<TensorFile>> TensorFile::create(const FilePlace& place, const Header& header,
                                                       const FileHead& head, const io::AtomicFileOptions& options,
                                                       WriteSession& session) {
  auto file = io::AtomicFile::create(place.path, head.file_size, options, place.shown);
  if (!file) return std::move(file).error();
  std::unique_ptr<TensorFile> made(new TensorFile(header, place.shown, head.bytes.size(), session));
  made->file_ = std::move(*file);
  if (Status status = made->file_->write_at(0, bytes_of(head.bytes)); !status) return std::move(status).error();
  return made;
}

Error TensorFile::error(Errc code, std::string message) const {
  return base::make_error(code, std::move(message), path_);
}

Result<const TensorInfo*> TensorFile::find(std::string_view name) const {
  if (const TensorInfo* const tensor = header_.find(name)) return tensor;
  return error(Errc::not_found, "no " + format::tensor_named(name) + " in the header");
}

Result<ByteRange> TensorFile::locate(const TensorInfo& tensor, std::uint64_t offset, std::uint64_t size) const {
  if (offset <= tensor.nbytes() && size <= tensor.nbytes() - offset)
    return ByteRange{tensor.begin + offset, tensor.begin + offset + size};
  return error(Errc::buffer_size, format::tensor_named(tensor.name) + ": " + std::to_string(size) + " bytes at byte " +
                                      std::to_string(offset) + " do not fit, it has " +
                                      std::to_string(tensor.nbytes()));
}

Result<std::uint64_t> TensorFile::row_offset(const TensorInfo& tensor, std::uint64_t row, std::uint64_t size) const {
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

Status TensorFile::claim(const TensorInfo& tensor, ByteRange range) {
  return session_.if_open([&]() -> Status {
    const std::optional<ByteRange> taken = written_.claim(range);
    if (!taken) return {};
    return error(Errc::overlapping_write, format::tensor_named(tensor.name) + ": " +
                                              range_of(taken->begin - tensor.begin, taken->end - tensor.begin) +
                                              " of " + std::to_string(tensor.nbytes()) + " were already written");
  });
}

Status TensorFile::check_complete() const {
  const std::optional<ByteRange> gap = written_.first_gap(header_.data_bytes());
  if (!gap) return {};
  const TensorList tensors = header_.tensors();
  const TensorInfo& tensor = *std::partition_point(tensors.begin(), tensors.end(),
                                                   [&](const TensorInfo& other) { return other.end <= gap->begin; });
  return error(Errc::incomplete_write,
               format::tensor_named(tensor.name) + ": " +
                   range_of(gap->begin - tensor.begin, std::min(gap->end, tensor.end) - tensor.begin) + " of " +
                   std::to_string(tensor.nbytes()) + " were never written");
}

Status TensorFile::write(const TensorInfo& tensor, std::uint64_t offset, std::span<const std::byte> bytes) {
  const Result<ByteRange> range = locate(tensor, offset, bytes.size());
  if (!range) return range.error();
  if (Status status = claim(tensor, *range); !status) return status;
  return session_.conclude(session_.meter.in_steps(bytes.size(), [&](std::uint64_t at, std::uint64_t size) {
    return file_->write_at(data_start_ + range->begin + at,
                           bytes.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size)));
  }));
}

Status TensorFile::write(std::string_view name, std::uint64_t offset, std::span<const std::byte> bytes) {
  const Result<const TensorInfo*> tensor = find(name);
  if (!tensor) return tensor.error();
  return write(**tensor, offset, bytes);
}

Status TensorFile::write_rows(std::string_view name, std::uint64_t first_row, std::span<const std::byte> bytes) {
  const Result<const TensorInfo*> tensor = find(name);
  if (!tensor) return tensor.error();
  const Result<std::uint64_t> offset = row_offset(**tensor, first_row, bytes.size());
  if (!offset) return offset.error();
  return write(**tensor, *offset, bytes);
}

Status TensorFile::check_same(const TensorInfo& tensor, const Tensor& from) const {
  if (from.dtype() != tensor.dtype)
    return error(Errc::dtype_mismatch, format::tensor_named(tensor.name) + ": is " +
                                           std::string(to_string(tensor.dtype)) + ", copied from " +
                                           std::string(to_string(from.dtype())));
  if (!std::ranges::equal(from.shape(), tensor.shape))
    return error(Errc::data_length, format::tensor_named(tensor.name) + ": has shape " + to_string(tensor.shape) +
                                        ", copied from " + to_string(from.shape()));
  return {};
}

Status TensorFile::copy(std::string_view name, const Tensor& from) {
  const Result<const TensorInfo*> found = find(name);
  if (!found) return found.error();
  const TensorInfo* const tensor = *found;
  if (Status status = check_same(*tensor, from); !status) return status;
  const ByteRange range{tensor->begin, tensor->end};
  if (Status status = claim(*tensor, range); !status) return status;

  const File file = from.file();
  const std::uint64_t offset = from.info().file_offset;
  const std::uint64_t target = data_start_ + range.begin;
  const Source::Memory memory = file.source().memory(offset, tensor->nbytes());
  std::uint64_t reached = 0;
  bool source_failed = false;
  Status status = session_.meter.in_steps(tensor->nbytes(), [&](std::uint64_t at, std::uint64_t size) {
    reached = at;
    if (memory.bytes.size() != tensor->nbytes())
      return file_->copy_at(target + at, file.source(), offset + at, size, &source_failed);
    return file_->write_at(target + at,
                           memory.bytes.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size)));
  });
  if (!source_failed) return session_.conclude(std::move(status));
  // Only reading the source failed. So the tensor counts as not written, and the caller may try again.
  session_.meter.take_back(reached);
  session_.release(written_, range);
  return base::with_path(std::move(status).error(), file.path());
}

}  // namespace safetensors::write
