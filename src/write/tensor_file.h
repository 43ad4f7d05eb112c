// Files of tensors that are written in several calls, in any order and from several threads. A WriteSession has one
// file, or one per file of a model.
#pragma once

#include <safetensors/checkpoint_layout.h>
#include <safetensors/checkpoint_writer.h>
#include <safetensors/error.h>
#include <safetensors/file.h>
#include <safetensors/header.h>
#include <safetensors/slice.h>
#include <safetensors/span.h>
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
#include <thread>
#include <utility>
#include <vector>

#include "io/atomic_file.h"
#include "io/file_writer.h"
#include "io/progress.h"
#include "write/checkpoint_folder.h"
#include "write/range_set.h"
#include "write/ticket.h"

namespace safetensors::write {

class WriteSession;

// A temporary file of another process.
struct JoinedPlace {
  std::string folder;
  std::string name;
  std::string shown;  // the path that errors show
  Durability durability = Durability::full;
};

class TensorFile {
 public:
  // A new file. head_bytes: size of its head, which WriteSession writes. session must outlive this.
  TensorFile(const Header& header, std::uint64_t head_bytes, WriteSession& session,
             std::unique_ptr<io::AtomicFile> file)
      : header_(header), path_(file->path()), data_start_(head_bytes), session_(session), file_(std::move(file)) {}
  // A temporary file of another process. The first write opens it, and compares its head with the header.
  TensorFile(const Header& header, std::uint64_t head_bytes, WriteSession& session, JoinedPlace place)
      : header_(header), path_(place.shown), data_start_(head_bytes), session_(session), place_(std::move(place)) {}

  // Errors: those of the functions of Writer with the same names.
  Status write(std::string_view name, std::uint64_t offset, std::span<const std::byte> bytes);
  Status write_slice(std::string_view name, const Slice& slice, std::span<const std::byte> bytes);
  Status copy(std::string_view name, const Tensor& from);
  // Writes bytes at an offset in the data of the file, also those of several tensors. Errors: those of Writer::write().
  Status write(std::uint64_t begin, std::span<const std::byte> bytes);
  // Copies the bytes [offset, offset + size) of a tensor of another file to an offset in the data. An error of reading
  // has the path of the source. Errors: those of Writer::copy().
  Status copy(std::uint64_t begin, const Tensor& from, std::uint64_t offset, std::uint64_t size);

  // Error: incomplete_write, if bytes are missing.
  [[nodiscard]] Status check_complete() const;
  [[nodiscard]] std::unique_ptr<io::AtomicFile>& file() noexcept { return file_; }
  [[nodiscard]] std::uint64_t data_start() const noexcept { return data_start_; }  // as Header::data_start()
  // Syncs a file of another process. Does nothing if no call has opened it. Errors: those of FileWriter::finish().
  [[nodiscard]] Status finish_joined();

  // The ranges written, in the data of the file. Call these functions in if_open() of the session.
  [[nodiscard]] const RangeSet& written() const noexcept { return written_; }
  // Error: overlapping_write, if bytes of the ranges are written. otherwise: the end of its message.
  [[nodiscard]] Status check_disjoint(const RangeSet& ranges, const char* otherwise) const;
  // Adds ranges that another process wrote, after check_disjoint(). Allocates no memory.
  void add_written(RangeSet&& ranges) noexcept { written_.merge(std::move(ranges)); }

 private:
  Status claim_and_write(RangeSet ranges, const std::function<Status(io::FileWriter&)>& write);
  Status write_claimed(io::FileWriter& file, std::uint64_t begin, std::span<const std::byte> bytes);
  Error not_found(std::string_view name) const;
  // Names the tensor of a range of the data, and the bytes of it: "tensor `w`: bytes 0 to 2 of 8". The range must not
  // be empty.
  std::string described(ByteRange range) const;
  // Returns the file that the bytes go to. Opens the temporary file of another process if it begins with the head.
  // Never creates, locks or removes a file. Errors: open_failed, not_regular_file, read_failed, file_changed,
  // invalid_argument (the file begins with other bytes).
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

// The files of one writer, and the state that they share: the progress, buffers, the first failure, and whether
// commit() has begun. Thread-safe, except for commit() and the functions that create files.
class WriteSession {
 public:
  // planned: the files, for the total. joined: another process writes their heads, so these do not count as done. path:
  // only for errors. reporter: see ProgressMeter.
  WriteSession(const WriteOptions& options, std::string_view path, Span<const CheckpointFile> planned,
               bool joined = false, std::thread::id reporter = {});

  // Creates one file. Errors: those of Writer::create().
  [[nodiscard]] Status create_file(std::string_view path, const Header& header, const WriteOptions& options);
  // Opens a folder, and creates the files of a model. Errors: those of CheckpointWriter::create().
  [[nodiscard]] Status create_model(std::string_view path, const CheckpointLayout& layout,
                                    const CheckpointWriteOptions& options);
  // Takes the temporary files of another process. Errors: those of size_of().
  [[nodiscard]] Status join(const Ticket& ticket, const CheckpointLayout& layout);

  // Records the result of a write, and returns it. Keeps the first failure, which every later call returns. Catch
  // the exceptions of a write before: its bytes count as written, so commit() would not find them missing.
  Status conclude(Status status);
  // Calls change() unless the writer has failed or is closed. Errors: the first failure, writer_closed, that of change.
  Status if_open(const std::function<Status()>& change);
  // Closes the writer, and puts its files in place. Errors: those of Writer::commit() or CheckpointWriter::commit().
  [[nodiscard]] Status commit();

  io::ProgressMeter meter;
  io::BounceBufferPool bounce_buffers;  // of all files
  // The files come after the folder, because they must be gone when the folder is removed.
  std::unique_ptr<CheckpointFolder> folder;  // null: there is one file, or another process has the folder
  std::vector<std::unique_ptr<TensorFile>> files;
  bool closed = false;  // set it in if_open()

 private:
  // make: creates a file of this size in bytes. Errors: those of size_of() and of `make`, write_failed.
  using Make = std::function<Result<std::unique_ptr<io::AtomicFile>>(std::uint64_t size)>;
  Status create(const Header& header, const Make& make);

  std::mutex mutex_;  // also guards the ranges written of each TensorFile
  std::optional<Error> failure_;
};

// writer_closed.
[[nodiscard]] Error closed_error();

}  // namespace safetensors::write
