// Writes a file in several calls, in any order and from several threads. See write/tensor_file.h.
#include <safetensors/writer.h>

#include <utility>

#include "base/error.h"
#include "write/file_head.h"
#include "write/tensor_file.h"

namespace safetensors {
inline namespace v0 {

struct Writer::State {
  State(const WriteOptions& options, const write::FileSize& size, std::string_view path)
      : session(options, size.file, size.head, path) {}

  write::WriteSession session;
  std::unique_ptr<write::TensorFile> file;
};

Writer::Writer(const Header& header, std::unique_ptr<State> state) noexcept
    : header_(header), state_(std::move(state)) {}
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;
Writer::~Writer() = default;

Result<Writer> Writer::create(PathView path, const Header& header, const WriteOptions& options) noexcept {
  return base::guarded([&]() -> Result<Writer> {
    const Result<write::FileSize> size = write::size_of(header);
    if (!size) return size.error();
    auto state = std::make_unique<State>(options, *size, path);
    auto file = write::TensorFile::create({std::string(path), std::string(path)}, header, *size,
                                          write::to_atomic_file_options(options), state->session);
    if (!file) return std::move(file).error();
    state->file = std::move(*file);
    return Writer(header, std::move(state));
  });
}

Status Writer::write(std::string_view name, std::uint64_t offset, Span<const std::byte> bytes) noexcept {
  return base::guarded([&]() -> Status {
    if (!state_) return write::closed_error();
    return state_->file->write(name, offset, bytes);
  });
}

Status Writer::write_rows(std::string_view name, std::uint64_t first_row, Span<const std::byte> bytes) noexcept {
  return base::guarded([&]() -> Status {
    if (!state_) return write::closed_error();
    return state_->file->write_rows(name, first_row, bytes);
  });
}

Status Writer::write_slice(std::string_view name, const Slice& slice, Span<const std::byte> bytes) noexcept {
  return base::guarded([&]() -> Status {
    if (!state_) return write::closed_error();
    return state_->file->write_slice(name, slice, bytes);
  });
}

Status Writer::copy(std::string_view name, const Tensor& tensor) noexcept {
  return base::guarded([&]() -> Status {
    if (!state_) return write::closed_error();
    return state_->file->copy(name, tensor);
  });
}

Status Writer::commit() noexcept {
  return base::guarded([&]() -> Status {
    if (!state_) return write::closed_error();
    Status status = state_->session.close_after([&] { return state_->file->check_complete(); });
    if (!status) return status;
    status = state_->session.meter.finish();
    return state_->session.conclude(status ? state_->file->file()->commit() : std::move(status));
  });
}

}  // namespace v0
}  // namespace safetensors
