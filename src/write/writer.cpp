// Writes the files of a model in several calls. Each file is a TensorFile; a CheckpointFolder puts them in place.
//
// Several processes: the creator makes the files, with their headers and under temporary names, and its ticket names
// them. A joined writer opens them by these names and writes ranges of the data. A receipt lists the ranges that it
// wrote. The creator adds these ranges to its own, so commit() finds bytes that nobody wrote and bytes that two
// processes wrote. Only the creator renames and removes files.
//
// Two processes may write neighbouring bytes of one block. Direct I/O writes only whole blocks inside of one range, and
// its block is at least a page. All other bytes go through the page cache, which the processes of a machine share. So
// no process overwrites bytes of another one.
#include <safetensors/checkpoint_writer.h>
#include <safetensors/writer.h>

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "io/temporary.h"
#include "os/directory.h"
#include "write/checkpoint_folder.h"
#include "write/file_head.h"
#include "write/tensor_file.h"
#include "write/ticket.h"

namespace safetensors {
inline namespace v0 {

namespace {

constexpr const char* kNotShared = "the writer is not shared: set `shared` in its options";

Error role_error(const char* message, std::string_view path) {
  return base::make_error(Errc::invalid_argument, message, path);
}

// Calls a function of the state of a writer. Error also: writer_closed, of a writer that was moved from.
template <class State, class Call>
auto with_state(const std::shared_ptr<State>& state, const Call& call) noexcept {
  return base::guarded([&]() -> decltype(call(*state)) {
    if (!state) return write::closed_error();
    return call(*state);
  });
}

}  // namespace

struct Writer::State {
  State(const WriteOptions& options, const write::FileSize& size, std::string_view path)
      : session(options, size.file, size.head, path) {}

  write::WriteSession session;
  std::unique_ptr<write::TensorFile> file;
};

Result<Writer> Writer::create(PathView path, const Header& header, const WriteOptions& options) noexcept {
  return base::guarded([&]() -> Result<Writer> {
    const Result<write::FileSize> size = write::size_of(header);
    if (!size) return size.error();
    auto state = std::make_shared<State>(options, *size, path);
    auto file =
        write::TensorFile::create(io::AtomicFile::create(path, size->file, write::to_atomic_file_options(options)),
                                  header, *size, state->session);
    if (!file) return std::move(file).error();
    state->file = std::move(*file);
    return Writer(header, std::move(state));
  });
}

Status Writer::write(std::string_view name, std::uint64_t offset, Span<const std::byte> bytes) noexcept {
  return with_state(state_, [&](State& state) { return state.file->write(name, offset, bytes); });
}

Status Writer::write_slice(std::string_view name, const Slice& slice, Span<const std::byte> bytes) noexcept {
  return with_state(state_, [&](State& state) { return state.file->write_slice(name, slice, bytes); });
}

Status Writer::copy(std::string_view name, const Tensor& tensor) noexcept {
  return with_state(state_, [&](State& state) { return state.file->copy(name, tensor); });
}

Status Writer::commit() noexcept {
  return with_state(state_, [](State& state) -> Status {
    if (Status closed = state.session.close({&state.file, 1}); !closed) return closed;
    Status status = state.session.meter.finish();
    return state.session.conclude(status ? state.file->file()->commit() : std::move(status));
  });
}

struct CheckpointWriter::State {
  enum class Role : std::uint8_t { alone, creator, joined };

  State(const CheckpointWriteOptions& options, std::uint64_t total, std::uint64_t heads, std::string_view path)
      : session(options.write, total, heads, path), shown(path) {}

  // Calls a function of the file with a tensor. Error also: not_found.
  template <class Call>
  static Status with_file(const std::shared_ptr<State>& state, const CheckpointLayout& layout, std::string_view tensor,
                          const Call& call) noexcept {
    return with_state(state, [&](State& open) -> Status {
      if (const std::optional<std::size_t> file = layout.file_of(tensor)) return call(*open.files[*file]);
      return base::make_error(Errc::not_found, "no " + base::tensor_named(tensor) + " in the layout");
    });
  }
  Status create_files(const CheckpointLayout& layout, const std::vector<write::FileSize>& sizes);
  Result<std::string> ticket() const;
  Result<std::string> receipt();
  Status accept(const CheckpointLayout& layout, std::string_view text);
  Status commit();
  Status put_in_place();
  // Removes the files that are not in place. The files stay as objects, because later calls of other threads find them.
  void discard() noexcept;

  // The files come after the folder, because they must be gone when the folder is removed.
  std::unique_ptr<write::CheckpointFolder> folder;
  write::WriteSession session;
  std::vector<std::unique_ptr<write::TensorFile>> files;  // in the order of the layout

  const std::string shown;  // the path of the folder, for errors
  Role role = Role::alone;
  std::string session_id;          // of the creator and of all writers that joined it
  std::string writer_id;           // of a joined writer
  std::set<std::string> accepted;  // ids of the writers whose receipts are accepted; guarded by session
};

Status CheckpointWriter::State::commit() {
  if (role == Role::joined)
    return role_error("a joined writer cannot commit: give its receipt() to accept() of the creator", shown);
  if (Status closed = session.close(files); !closed) return closed;
  Status status = session.meter.finish();
  status = session.conclude(status ? put_in_place() : std::move(status));
  if (!status) discard();
  return status;
}

Status CheckpointWriter::State::put_in_place() {
  std::vector<std::unique_ptr<io::AtomicFile>> finished;
  finished.reserve(files.size());
  for (const auto& file : files) {
    if (Status status = file->file()->finish(); !status) return status;
    finished.push_back(std::move(file->file()));
  }
  return folder->commit(finished);
}

Status CheckpointWriter::State::create_files(const CheckpointLayout& layout,
                                             const std::vector<write::FileSize>& sizes) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    auto made = write::TensorFile::create(folder->create_file(i, sizes[i].file, role == Role::creator),
                                          layout.files()[i].header, sizes[i], session);
    if (!made) return std::move(made).error();
    files.push_back(std::move(*made));
    if (role != Role::creator) continue;
    if (Status status = files.back()->file()->publish(); !status) return status;
  }
  return {};
}

Result<std::string> CheckpointWriter::State::ticket() const {
  if (role == Role::joined) return role_error("a joined writer has no ticket: take that of the creator", shown);
  if (role == Role::alone) return role_error(kNotShared, shown);
  if (!folder) return write::closed_error();
  write::Ticket ticket{.session = session_id};
  if (Status status = folder->describe(ticket); !status) return std::move(status).error();
  for (const auto& file : files) {
    if (!file->file()) return write::closed_error();
    ticket.files.push_back(file->file()->temporary());
  }
  return write::ticket_text(ticket);
}

Result<std::string> CheckpointWriter::State::receipt() {
  if (role == Role::creator)
    return role_error("the creator has no receipt: commit() knows what it wrote itself", shown);
  if (role == Role::alone) return role_error(kNotShared, shown);
  Result<std::string> text = std::string();
  Status status = session.close_after([&]() -> Status {
    std::vector<const write::RangeSet*> ranges;
    for (const auto& file : files) ranges.push_back(&file->written());
    text = write::receipt_text(session_id, writer_id, ranges);
    return {};
  });
  if (!status) return std::move(status).error();
  for (const auto& file : files) {
    if (Status synced = session.conclude(file->finish_joined()); !synced) return std::move(synced).error();
  }
  return text;
}

// Costs about the size of the receipt, however much was accepted before. All memory is allocated before the first
// change, so the receipt is added whole or not at all.
Status CheckpointWriter::State::accept(const CheckpointLayout& layout, std::string_view text) {
  if (role == Role::joined) return role_error("a joined writer cannot accept a receipt, only the creator can", shown);
  if (role == Role::alone) return role_error(kNotShared, shown);
  std::vector<std::uint64_t> data_bytes;
  for (const CheckpointFile& file : layout.files()) data_bytes.push_back(file.header.data_bytes());
  Result<write::Receipt> receipt = write::parse_receipt(text, session_id, data_bytes);
  if (!receipt) return base::with_path(std::move(receipt).error(), shown);
  Status status = session.if_open([&]() -> Status {
    if (accepted.contains(receipt->writer)) return role_error("the receipt was already accepted", shown);
    for (const auto& [file, ranges] : receipt->ranges) {
      if (Status disjoint = files[file]->check_disjoint(ranges, " were written by two processes"); !disjoint)
        return disjoint;
    }
    accepted.insert(receipt->writer);
    for (auto& [file, ranges] : receipt->ranges) files[file]->add_written(std::move(ranges));
    return {};
  });
  // Bytes that two processes wrote can never become right again.
  if (!status) return status.error().code == Errc::overlapping_write ? session.conclude(std::move(status)) : status;
  return session.conclude(session.meter.add(receipt->bytes));
}

void CheckpointWriter::State::discard() noexcept {
  for (const auto& file : files) file->file().reset();
  folder.reset();
}

Result<CheckpointWriter> CheckpointWriter::create(PathView folder, const CheckpointLayout& layout,
                                                  const CheckpointWriteOptions& options) noexcept {
  return base::guarded([&]() -> Result<CheckpointWriter> {
    std::vector<write::FileSize> sizes;
    std::uint64_t total = 0;  // only for progress; may be wrong above 2^64-1, but the sum of the data is checked
    std::uint64_t head_bytes = 0;
    for (const CheckpointFile& file : layout.files()) {
      const Result<write::FileSize> size = write::size_of(file.header);
      if (!size) return size.error();
      total += size->file;
      head_bytes += size->head;
      sizes.push_back(*size);
    }
    auto state = std::make_shared<State>(options, total, head_bytes, folder);
    if (options.shared) {
      state->role = State::Role::creator;
      state->session_id = io::random_id();
    }
    auto opened = write::CheckpointFolder::open(folder, layout, options);
    if (!opened) return std::move(opened).error();
    state->folder = std::move(*opened);
    if (Status status = state->create_files(layout, sizes); !status) return std::move(status).error();
    return CheckpointWriter(layout, std::move(state));
  });
}

Result<CheckpointWriter> CheckpointWriter::join(std::string_view ticket, const CheckpointLayout& layout,
                                                const CheckpointWriteOptions& options) noexcept {
  return base::guarded([&]() -> Result<CheckpointWriter> {
    const Result<write::Ticket> parsed = write::parse_ticket(ticket, layout.files().size());
    if (!parsed) return parsed.error();
    std::uint64_t total = 0;
    for (const CheckpointFile& file : layout.files()) total += file.header.file_bytes();
    auto state = std::make_shared<State>(options, total, 0, parsed->folder);
    state->role = State::Role::joined;
    state->session_id = parsed->session;
    state->writer_id = io::random_id();
    for (std::size_t i = 0; i < parsed->files.size(); ++i) {
      const CheckpointFile& file = layout.files()[i];
      auto made = write::TensorFile::join(
          {parsed->place(), parsed->files[i], os::join_path(parsed->folder, file.name), parsed->durability},
          file.header, state->session);
      if (!made) return std::move(made).error();
      state->files.push_back(std::move(*made));
    }
    return CheckpointWriter(layout, std::move(state));
  });
}

Status CheckpointWriter::write(std::string_view name, std::uint64_t offset, Span<const std::byte> bytes) noexcept {
  return State::with_file(state_, layout_, name,
                          [&](write::TensorFile& file) { return file.write(name, offset, bytes); });
}

Status CheckpointWriter::write_slice(std::string_view name, const Slice& slice, Span<const std::byte> bytes) noexcept {
  return State::with_file(state_, layout_, name,
                          [&](write::TensorFile& file) { return file.write_slice(name, slice, bytes); });
}

Status CheckpointWriter::copy(std::string_view name, const Tensor& tensor) noexcept {
  return State::with_file(state_, layout_, name, [&](write::TensorFile& file) { return file.copy(name, tensor); });
}

Result<std::string> CheckpointWriter::ticket() const noexcept {
  return with_state(state_, [](const State& state) { return state.ticket(); });
}

Result<std::string> CheckpointWriter::receipt() noexcept {
  return with_state(state_, [](State& state) { return state.receipt(); });
}

Status CheckpointWriter::accept(std::string_view receipt) noexcept {
  return with_state(state_, [&](State& state) { return state.accept(layout_, receipt); });
}

Status CheckpointWriter::commit() noexcept {
  return with_state(state_, [](State& state) { return state.commit(); });
}

Result<std::vector<std::string>> CheckpointWriter::file_names() const noexcept {
  return with_state(state_, [](const State& state) -> Result<std::vector<std::string>> {
    if (!state.folder) return write::closed_error();
    return state.folder->names();
  });
}

}  // namespace v0
}  // namespace safetensors
