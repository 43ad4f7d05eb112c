// Writes the files of a model in several calls. Each file is a TensorFile; a CheckpointFolder puts them in place.
#include <safetensors/checkpoint_writer.h>

#include <utility>
#include <vector>

#include "base/error.h"
#include "format/printable.h"
#include "write/checkpoint_folder.h"
#include "write/tensor_file.h"

namespace safetensors {
inline namespace v0 {

struct CheckpointWriter::State {
  State(const CheckpointWriteOptions& options, std::uint64_t total, std::uint64_t heads, std::string_view path)
      : session(options.write, total, heads, path) {}

  // Error: not_found.
  Result<write::TensorFile*> file_of(const CheckpointLayout& layout, std::string_view tensor);
  Status commit();
  // Removes what is not in place. The files stay as objects, because later calls of other threads find them.
  void discard() noexcept;

  // The files come after the folder, because they must be gone when the folder is removed.
  std::unique_ptr<write::CheckpointFolder> folder;
  write::WriteSession session;
  std::vector<std::unique_ptr<write::TensorFile>> files;  // in the order of the layout
};

Result<write::TensorFile*> CheckpointWriter::State::file_of(const CheckpointLayout& layout, std::string_view tensor) {
  if (const std::optional<std::size_t> file = layout.file_of(tensor)) return files[*file].get();
  return base::make_error(Errc::not_found, "no " + format::tensor_named(tensor) + " in the layout");
}

Status CheckpointWriter::State::commit() {
  std::vector<std::unique_ptr<io::AtomicFile>> finished;
  finished.reserve(files.size());
  for (const auto& file : files) {
    if (Status status = file->file()->file().finish(); !status) return status;
    finished.push_back(std::move(file->file()));
  }
  return folder->commit(finished);
}

void CheckpointWriter::State::discard() noexcept {
  for (const auto& file : files) file->file().reset();
  folder.reset();
}

CheckpointWriter::CheckpointWriter(const CheckpointLayout& layout, std::unique_ptr<State> state) noexcept
    : layout_(layout), state_(std::move(state)) {}
CheckpointWriter::CheckpointWriter(CheckpointWriter&&) noexcept = default;
CheckpointWriter& CheckpointWriter::operator=(CheckpointWriter&&) noexcept = default;
CheckpointWriter::~CheckpointWriter() = default;

Result<CheckpointWriter> CheckpointWriter::create(PathView folder, const CheckpointLayout& layout,
                                                  const CheckpointWriteOptions& options) noexcept {
  return base::guarded([&]() -> Result<CheckpointWriter> {
    std::vector<write::FileHead> heads;
    std::uint64_t total = 0;  // at most 2^64-1: the sum of the data is checked, and progress may be wrong beyond
    std::uint64_t head_bytes = 0;
    for (const CheckpointFile& file : layout.files()) {
      Result<write::FileHead> head = write::head_of(file.header);
      if (!head) return std::move(head).error();
      total += head->file_size;
      head_bytes += head->bytes.size();
      heads.push_back(*std::move(head));
    }
    auto state = std::make_unique<State>(options, total, head_bytes, folder);
    auto opened = write::CheckpointFolder::open(folder, layout, options);
    if (!opened) return std::move(opened).error();
    state->folder = std::move(*opened);
    for (std::size_t i = 0; i < heads.size(); ++i) {
      const CheckpointFile& file = layout.files()[i];
      auto made = write::TensorFile::create(state->folder->place_of(file.name), file.header, heads[i],
                                            state->folder->file_options(), state->session);
      if (!made) return state->folder->explain(std::move(made).error());
      state->files.push_back(std::move(*made));
    }
    return CheckpointWriter(layout, std::move(state));
  });
}

Status CheckpointWriter::write(std::string_view name, std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
  return base::guarded([&]() -> Status {
    if (!state_) return write::closed_error();
    const Result<write::TensorFile*> file = state_->file_of(layout_, name);
    return file ? (*file)->write(name, offset, bytes) : Status(file.error());
  });
}

Status CheckpointWriter::write_rows(std::string_view name, std::uint64_t first_row,
                                    std::span<const std::byte> bytes) noexcept {
  return base::guarded([&]() -> Status {
    if (!state_) return write::closed_error();
    const Result<write::TensorFile*> file = state_->file_of(layout_, name);
    return file ? (*file)->write_rows(name, first_row, bytes) : Status(file.error());
  });
}

Status CheckpointWriter::copy(std::string_view name, const Tensor& tensor) noexcept {
  return base::guarded([&]() -> Status {
    if (!state_) return write::closed_error();
    const Result<write::TensorFile*> file = state_->file_of(layout_, name);
    return file ? (*file)->copy(name, tensor) : Status(file.error());
  });
}

Status CheckpointWriter::commit() noexcept {
  return base::guarded([&]() -> Status {
    if (!state_) return write::closed_error();
    Status complete = state_->session.close_after([&]() -> Status {
      for (const auto& file : state_->files) {
        if (Status status = file->check_complete(); !status) return status;
      }
      return {};
    });
    if (!complete) return complete;
    Status status = state_->session.meter.finish();
    status = state_->session.conclude(status ? state_->commit() : std::move(status));
    if (!status) state_->discard();
    return status;
  });
}

}  // namespace v0
}  // namespace safetensors
