// One file of tensors that is written in several calls, in any order and from several threads. A Writer has one, a
// CheckpointWriter has one per file of the model.
#pragma once

#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/header.h>
#include <safetensors/slice.h>
#include <safetensors/writer.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "io/atomic_file.h"
#include "io/file_writer.h"
#include "io/progress.h"
#include "write/file_head.h"
#include "write/range_set.h"

namespace safetensors::write {

class TensorFile;

// The state that the files of one writer share: the progress, buffers, the first failure, and whether commit() has
// begun. Thread-safe.
class WriteSession {
 public:
  // done: bytes that count as written from the start. path: only for errors.
  WriteSession(const WriteOptions& options, std::uint64_t total, std::uint64_t done, std::string_view path)
      : meter(options.progress, total, done, path) {}

  // Records the result of a write, and returns it. Keeps the first failure, which every later call returns. Catch
  // the exceptions of a write before: its bytes count as written, so commit() would not find them missing.
  Status conclude(Status status);
  // Calls change() unless the writer has failed or is closed. Errors: the first failure, writer_closed, that of change.
  Status if_open(const std::function<Status()>& change);
  // The same, and then closes the writer.
  Status close_after(const std::function<Status()>& change);
  // Closes the writer if no byte of its files is missing. Errors also: incomplete_write.
  Status close(std::span<const std::unique_ptr<TensorFile>> files);

  io::ProgressMeter meter;
  io::BounceBufferPool bounce_buffers;  // of all files

 private:
  std::mutex mutex_;  // also guards the ranges written of each TensorFile
  std::optional<Error> failure_;
  bool closed_ = false;
};

// A temporary file of another process.
struct JoinedPlace {
  std::string folder;
  std::string name;
  std::string shown;  // the path that errors show
  Durability durability = Durability::full;
};

class TensorFile {
 public:
  // Writes the head of a new file. file: an error is returned as it is. size: that of the header. session must outlive
  // the result. Errors: those of Writer::create().
  [[nodiscard]] static Result<std::unique_ptr<TensorFile>> create(Result<std::unique_ptr<io::AtomicFile>> file,
                                                                  const Header& header, const FileSize& size,
                                                                  WriteSession& session);
  // Writes into a temporary file of another process. The first write opens it, and compares its head with the header.
  // session must outlive it. Errors: those of size_of().
  [[nodiscard]] static Result<std::unique_ptr<TensorFile>> join(JoinedPlace place, const Header& header,
                                                                WriteSession& session);

  // Errors: those of the functions of Writer with the same names.
  Status write(std::string_view name, std::uint64_t offset, std::span<const std::byte> bytes);
  Status write_slice(std::string_view name, const Slice& slice, std::span<const std::byte> bytes);
  Status copy(std::string_view name, const Tensor& from);

  // Error: incomplete_write, if bytes are missing. WriteSession::close() calls it.
  [[nodiscard]] Status check_complete() const;
  [[nodiscard]] std::unique_ptr<io::AtomicFile>& file() noexcept { return file_; }
  // Syncs a file of another process. Does nothing if no call has opened it. Errors: those of FileWriter::finish().
  [[nodiscard]] Status finish_joined();

  // The ranges written, in the data of the file. Call these functions in if_open() or close_after() of the session.
  [[nodiscard]] const RangeSet& written() const noexcept { return written_; }
  // Error: overlapping_write, if bytes of the ranges are written. otherwise: the end of its message.
  [[nodiscard]] Status check_disjoint(const RangeSet& ranges, const char* otherwise) const;
  // Adds ranges that another process wrote, after check_disjoint(). Allocates no memory.
  void add_written(RangeSet&& ranges) noexcept { written_.merge(std::move(ranges)); }

 private:
  TensorFile(const Header& header, std::string_view path, std::uint64_t head, WriteSession& session)
      : header_(header), path_(path), data_start_(head), session_(session) {}

  Status claim_and_write(RangeSet ranges, const std::function<Status(io::FileWriter&)>& write);
  Status write_claimed(io::FileWriter& file, std::uint64_t begin, std::span<const std::byte> bytes);
  Error not_found(std::string_view name) const;
  // Names the tensor of a range of the data, and the bytes of it: "tensor `w`: bytes 0 to 2 of 8". The range must not
  // be empty.
  std::string described(ByteRange range) const;
  // Opens the temporary file of another process if it begins with the head. Never creates, locks or removes a file.
  // Errors: open_failed, not_regular_file, read_failed, file_changed, invalid_argument (the file begins with other
  // bytes).
  Result<std::unique_ptr<io::FileWriter>> open_joined() const;
  // Returns the file that the bytes go to. If it belongs to another process, opens it.
  Result<io::FileWriter*> output();
  Error error(Errc code, std::string message) const;

  const Header header_;
  const std::string path_;
  const std::uint64_t data_start_;
  WriteSession& session_;
  std::unique_ptr<io::AtomicFile> file_;  // null: a file of another process, or a file that is in place
  std::optional<JoinedPlace> place_;      // only of a file of another process
  std::mutex opening_;
  std::unique_ptr<io::FileWriter> joined_;  // null until the first write; guarded by opening_
  RangeSet written_;
};

// Copies a whole tensor of another file to offset `target`. The meter counts its bytes. Errors: those of
// FileWriter::copy_at(), cancelled. An error of reading has the path of the source.
[[nodiscard]] Status copy_tensor(io::FileWriter& to, std::uint64_t target, const Tensor& from,
                                 io::ProgressMeter& meter);

// writer_closed.
[[nodiscard]] Error closed_error();

}  // namespace safetensors::write
