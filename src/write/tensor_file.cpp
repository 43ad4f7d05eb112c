// Writes a file of tensors in several calls. A RangeSet records the ranges written. With it, write() refuses to write a
// byte twice, and check_complete() finds missing bytes.
//
// The temporary file of another process is opened twice. The first descriptor only reads: it compares the head with
// that of the caller's layout, so that a process with another layout writes nothing. The second one only writes. One
// descriptor for both would let a network file system fill its cache with whole pages and write them back over bytes of
// another machine.
#include "write/tensor_file.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "format/slice/slice.h"
#include "os/descriptor.h"
#include "os/directory.h"
#include "os/file_status.h"
#include "os/open.h"
#include "os/regular_file.h"
#include "os/system_error.h"
#include "write/file_head.h"

namespace safetensors::write {
namespace {

Error cannot_open(int error_number, std::string_view path) {
  return os::system_error(Errc::open_failed, error_number,
                          error_number == ENOENT
                              ? "cannot join: the writer that gave the ticket has committed, failed or ended"
                              : "cannot join: cannot open the temporary file of the writer that gave the ticket",
                          path);
}

// Compares the head of a file with that of a header. head_bytes: its length.
Status compare_head(const Source& file, const Header& header, std::uint64_t head_bytes, std::string_view path) {
  std::vector<std::byte> found;
  return write_head(header, head_bytes, [&](std::uint64_t offset, std::span<const std::byte> head) -> Status {
    found.resize(head.size());
    const Status read = os::read_exactly(file, offset, found);
    if (!read && read.error().code != Errc::file_truncated) return base::with_path(read.error(), path);
    if (read && std::ranges::equal(found, head)) return {};
    return base::make_error(Errc::invalid_argument,
                            "cannot join: the header of this layout differs from that of the writer that gave the "
                            "ticket (make the layout from the same arguments in every process)",
                            path);
  });
}

// May be wrong above 2^64-1, and is only for progress.
std::uint64_t sum_of(Span<const CheckpointFile> files, std::uint64_t (Header::*size)() const noexcept) {
  std::uint64_t sum = 0;
  for (const CheckpointFile& file : files) sum += (file.header.*size)();
  return sum;
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
  if (closed) return closed_error();
  return change();
}

WriteSession::WriteSession(const WriteOptions& options, std::string_view path, Span<const CheckpointFile> planned,
                           bool joined, std::thread::id reporter)
    : meter(options.progress, sum_of(planned, &Header::file_bytes), joined ? 0 : sum_of(planned, &Header::data_start),
            path, reporter) {}

Status WriteSession::create(const Header& header, const Make& make) {
  const Result<FileSize> size = size_of(header);
  if (!size) return size.error();
  auto made = make(size->file);
  if (!made) return std::move(made).error();
  io::FileWriter& file = (*made)->file();
  file.share_bounce_buffers(bounce_buffers);
  files.push_back(std::make_unique<TensorFile>(header, size->head, *this, std::move(*made)));
  return write_head(header, size->head, [&](std::uint64_t offset, std::span<const std::byte> bytes) {
    return file.write_at(offset, bytes);
  });
}

Status WriteSession::join(const Ticket& ticket, const CheckpointLayout& layout) {
  for (std::size_t i = 0; i < ticket.files.size(); ++i) {
    const CheckpointFile& file = layout.files()[i];
    const Result<FileSize> size = size_of(file.header);
    if (!size) return size.error();
    files.push_back(std::make_unique<TensorFile>(
        file.header, size->head, *this,
        JoinedPlace{ticket.place(), ticket.files[i], os::join_path(ticket.folder, file.name), ticket.durability}));
  }
  return {};
}

Status WriteSession::create_file(std::string_view path, const Header& header, const WriteOptions& options) {
  return create(
      header, [&](std::uint64_t size) { return io::AtomicFile::create(path, size, to_atomic_file_options(options)); });
}

Status WriteSession::create_model(std::string_view path, const CheckpointLayout& layout,
                                  const CheckpointWriteOptions& options) {
  auto opened = CheckpointFolder::open(path, layout, options);
  if (!opened) return std::move(opened).error();
  folder = std::move(*opened);
  Status status;
  for (std::size_t i = 0; status && i < layout.files().size(); ++i) {
    status = create(layout.files()[i].header,
                    [&](std::uint64_t size) { return folder->create_file(i, size, options.shared); });
    if (status && options.shared) status = files.back()->file()->publish();
  }
  return status;
}

Status WriteSession::commit() {
  Status complete = if_open([&] {
    Status status;
    for (std::size_t i = 0; status && i < files.size(); ++i) status = files[i]->check_complete();
    closed = status.ok();
    return status;
  });
  if (!complete) return complete;
  std::vector<std::unique_ptr<io::AtomicFile>> finished;
  finished.reserve(files.size());
  Status status = meter.finish();
  for (std::size_t i = 0; status && i < files.size(); ++i) {
    status = files[i]->file()->finish();
    if (status) finished.push_back(std::move(files[i]->file()));
  }
  if (status) status = folder ? folder->commit(finished) : finished.front()->commit();
  status = conclude(std::move(status));
  if (status) return status;
  // Removes the files that are not in place. They stay as objects, because later calls of other threads find them.
  finished.clear();
  for (const auto& file : files) file->file().reset();
  folder.reset();
  return status;
}

Result<io::FileWriter*> TensorFile::output() {
  if (!place_) return &file_->file();
  const std::lock_guard lock(opening_);
  if (joined_) return joined_.get();
  const auto open = [&](int directory, const std::string& name, os::OpenFlags flags) {
    return os::Descriptor(os::retry([&] { return os::open_at(directory, name.c_str(), flags, 0); }));
  };
  const os::Descriptor folder = open(os::kWorkingDirectory, place_->folder, os::kOpenPathOfDirectory);
  if (!folder.valid()) return cannot_open(errno, path_);
  os::Descriptor reading = open(folder.get(), place_->name, os::OpenFlags::read | os::kDistrust);
  if (!reading.valid()) return cannot_open(errno, path_);
  const auto expected = os::RegularFile::take(std::move(reading));
  if (!expected) return base::with_path(expected.error(), path_);
  if (Status same = compare_head(**expected, header_, data_start_, path_); !same) return std::move(same).error();

  os::FileStatus opened;
  os::Descriptor writing = open(folder.get(), place_->name, os::OpenFlags::write | os::kDistrust);
  if (!writing.valid() || os::status_of(writing.get(), opened) != 0) return cannot_open(errno, path_);
  if (!opened.identity.same_file((*expected)->identity()))
    return error(Errc::file_changed, "cannot join: the temporary file was replaced by another");
  joined_ = std::make_unique<io::FileWriter>(place_->durability, path_);
  joined_->adopt(writing.release());
  joined_->share_bounce_buffers(session_.bounce_buffers);
  if (data_start_ + header_.data_bytes() >= io::kMinDirectFile)
    joined_->open_direct(folder.get(), place_->name.c_str());
  return joined_.get();
}

Status TensorFile::finish_joined() {
  if (!joined_) return {};
  Status finished = joined_->finish();
  if (finished) joined_->close();  // Windows renames no folder in which a file is open
  return finished;
}

Error TensorFile::error(Errc code, std::string message) const {
  return base::make_error(code, std::move(message), path_);
}

Error TensorFile::not_found(std::string_view name) const {
  return error(Errc::not_found, "no " + base::tensor_named(name) + " in the header");
}

std::string TensorFile::described(ByteRange range) const {
  const TensorList tensors = header_.tensors();
  const TensorInfo& tensor = *std::partition_point(tensors.begin(), tensors.end(),
                                                   [&](const TensorInfo& other) { return other.end <= range.begin; });
  return base::tensor_named(tensor.name) + ": bytes " + std::to_string(range.begin - tensor.begin) + " to " +
         std::to_string(std::min(range.end, tensor.end) - tensor.begin) + " of " + std::to_string(tensor.nbytes());
}

Status TensorFile::check_disjoint(const RangeSet& ranges, const char* otherwise) const {
  const std::optional<ByteRange> taken = written_.first_common(ranges);
  return taken ? Status(error(Errc::overlapping_write, described(*taken) + otherwise)) : Status();
}

Status TensorFile::check_complete() const {
  const std::optional<ByteRange> gap = written_.first_gap(header_.data_bytes());
  return gap ? Status(error(Errc::incomplete_write, described(*gap) + " were never written")) : Status();
}

// Claims the ranges before it writes them, so that two threads cannot both write them.
Status TensorFile::claim_and_write(RangeSet ranges, const std::function<Status(io::FileWriter&)>& write) {
  Status claimed = session_.if_open([&] {
    Status status = check_disjoint(ranges, " were already written");
    if (status) written_.merge(std::move(ranges));
    return status;
  });
  if (!claimed) return claimed;
  return session_.conclude(base::guarded([&]() -> Status {
    const Result<io::FileWriter*> file = output();
    return file ? write(**file) : Status(file.error());
  }));
}

// begin: offset in the data of the file.
Status TensorFile::write_claimed(io::FileWriter& file, std::uint64_t begin, std::span<const std::byte> bytes) {
  return session_.meter.in_steps(bytes.size(), [&](std::uint64_t at, std::uint64_t size) {
    return file.write_at(data_start_ + begin + at,
                         bytes.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(size)));
  });
}

Status TensorFile::write(std::string_view name, std::uint64_t offset, std::span<const std::byte> bytes) {
  const TensorInfo* const tensor = header_.find(name);
  if (tensor == nullptr) return not_found(name);
  if (offset > tensor->nbytes() || bytes.size() > tensor->nbytes() - offset)
    return error(Errc::buffer_size, base::tensor_named(tensor->name) + ": " + std::to_string(bytes.size()) +
                                        " bytes at byte " + std::to_string(offset) + " do not fit, it has " +
                                        std::to_string(tensor->nbytes()));
  return write(tensor->begin + offset, bytes);
}

Status TensorFile::write(std::uint64_t begin, std::span<const std::byte> bytes) {
  return claim_and_write(RangeSet({begin, begin + bytes.size()}),
                         [&](io::FileWriter& file) { return write_claimed(file, begin, bytes); });
}

Status TensorFile::write_slice(std::string_view name, const Slice& slice, std::span<const std::byte> bytes) {
  const TensorInfo* const tensor = header_.find(name);
  if (tensor == nullptr) return not_found(name);
  const std::string named = base::tensor_named(tensor->name);
  const Result<ResolvedSlice> part = slice.resolve(tensor->dtype, tensor->shape);
  if (!part) return error(part.error().code, named + ": " + part.error().message);
  if (bytes.size() != part->nbytes())
    return error(Errc::data_length, named + ": the slice has shape " + to_string(part->shape()) + " and " +
                                        std::to_string(part->nbytes()) + " bytes, the data " +
                                        std::to_string(bytes.size()));
  RangeSet ranges;  // the runs of a slice do not overlap
  format::ByteRun run;
  for (format::Runs runs(*part); runs.next(run);)
    ranges.add({tensor->begin + run.offset, tensor->begin + run.offset + run.size});
  return claim_and_write(std::move(ranges), [&](io::FileWriter& file) -> Status {
    for (format::Runs runs(*part); runs.next(run);) {
      const auto size = static_cast<std::size_t>(run.size);
      if (Status status = write_claimed(file, tensor->begin + run.offset, bytes.first(size)); !status) return status;
      bytes = bytes.subspan(size);
    }
    return {};
  });
}

Status TensorFile::copy(std::string_view name, const Tensor& from) {
  const TensorInfo* const tensor = header_.find(name);
  if (tensor == nullptr) return not_found(name);
  if (from.dtype() != tensor->dtype)  // a tensor of a new file never has an unknown dtype
    return error(Errc::dtype_mismatch, base::tensor_named(tensor->name) + ": is " +
                                           std::string(to_string(tensor->dtype)) + ", copied from " +
                                           std::string(to_string(from.dtype())));
  if (!std::ranges::equal(from.shape(), tensor->shape))
    return error(Errc::data_length, base::tensor_named(tensor->name) + ": has shape " + to_string(tensor->shape) +
                                        ", copied from " + to_string(from.shape()));
  return copy(tensor->begin, from, 0, tensor->nbytes());
}

Status TensorFile::copy(std::uint64_t begin, const Tensor& from, std::uint64_t offset, std::uint64_t size) {
  const File file = from.file();
  const std::uint64_t source = from.info().file_offset + offset;
  return claim_and_write(RangeSet({begin, begin + size}), [&](io::FileWriter& to) {
    return session_.meter.in_steps(size, [&](std::uint64_t at, std::uint64_t bytes) {
      Status status = to.copy_at(data_start_ + begin + at, file.source(), source + at, bytes);
      // An error of writing has the path of the output.
      return status ? status : base::with_path(std::move(status).error(), file.path());
    });
  });
}

}  // namespace safetensors::write
