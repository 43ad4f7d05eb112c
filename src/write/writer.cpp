// Writes the files of a model in several calls, by means of a WriteSession.
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
#include "write/checkpoint_folder.h"
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

struct Writer::State : write::WriteSession {
  using WriteSession::WriteSession;
};

Result<Writer> Writer::create(PathView path, const Header& header, const WriteOptions& options) noexcept {
  return base::guarded([&]() -> Result<Writer> {
    const CheckpointFile file{{}, header};
    auto state = std::make_shared<State>(options, path, Span<const CheckpointFile>(&file, 1));
    if (Status status = state->create_file(path, header, options); !status) return std::move(status).error();
    return Writer(header, std::move(state));
  });
}

Status Writer::write(std::string_view name, std::uint64_t offset, Span<const std::byte> bytes) noexcept {
  return with_state(state_, [&](State& state) { return state.files[0]->write(name, offset, bytes); });
}

Status Writer::write_slice(std::string_view name, const Slice& slice, Span<const std::byte> bytes) noexcept {
  return with_state(state_, [&](State& state) { return state.files[0]->write_slice(name, slice, bytes); });
}

Status Writer::copy(std::string_view name, const Tensor& tensor) noexcept {
  return with_state(state_, [&](State& state) { return state.files[0]->copy(name, tensor); });
}

Status Writer::commit() noexcept {
  return with_state(state_, [](State& state) { return state.commit(); });
}

struct CheckpointWriter::State : write::WriteSession {
  State(const CheckpointWriteOptions& options, std::string_view path, const CheckpointLayout& layout, bool has_joined)
      : WriteSession(options.write, path, layout.files(), has_joined), shown(path), joined(has_joined) {}

  // Calls a function of the file with a tensor. Error also: not_found.
  template <class Call>
  static Status with_file(const std::shared_ptr<State>& state, const CheckpointLayout& layout, std::string_view tensor,
                          const Call& call) noexcept {
    return with_state(state, [&](State& open) -> Status {
      if (const std::optional<std::size_t> file = layout.file_of(tensor)) return call(*open.files[*file]);
      return base::make_error(Errc::not_found, "no " + base::tensor_named(tensor) + " in the layout");
    });
  }

  const std::string shown;                  // the path of the folder, for errors
  const bool joined;                        // another process is the creator
  std::string session_id;                   // of the creator and of all writers that joined it; empty: not shared
  std::string writer_id = io::random_id();  // of a joined writer
  std::set<std::string> accepted;           // ids of the writers whose receipts are accepted; guarded by if_open()
};

Result<CheckpointWriter> CheckpointWriter::create(PathView folder, const CheckpointLayout& layout,
                                                  const CheckpointWriteOptions& options) noexcept {
  return base::guarded([&]() -> Result<CheckpointWriter> {
    auto state = std::make_shared<State>(options, folder, layout, false);
    if (options.shared) state->session_id = io::random_id();
    if (Status status = state->create_model(folder, layout, options); !status) return std::move(status).error();
    return CheckpointWriter(layout, std::move(state));
  });
}

Result<CheckpointWriter> CheckpointWriter::join(std::string_view ticket, const CheckpointLayout& layout,
                                                const CheckpointWriteOptions& options) noexcept {
  return base::guarded([&]() -> Result<CheckpointWriter> {
    const Result<write::Ticket> parsed = write::parse_ticket(ticket, layout.files().size());
    if (!parsed) return parsed.error();
    auto state = std::make_shared<State>(options, parsed->folder, layout, true);
    state->session_id = parsed->session;
    if (Status status = state->join(*parsed, layout); !status) return std::move(status).error();
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
  return with_state(state_, [](const State& state) -> Result<std::string> {
    if (state.joined) return role_error("a joined writer has no ticket: take that of the creator", state.shown);
    if (state.session_id.empty()) return role_error(kNotShared, state.shown);
    if (!state.folder) return write::closed_error();
    write::Ticket ticket{.session = state.session_id};
    if (Status status = state.folder->describe(ticket); !status) return std::move(status).error();
    for (const auto& file : state.files) {
      if (!file->file()) return write::closed_error();
      ticket.files.push_back(file->file()->temporary());
    }
    return write::ticket_text(ticket);
  });
}

Result<std::string> CheckpointWriter::receipt() noexcept {
  return with_state(state_, [](State& state) -> Result<std::string> {
    if (state.session_id.empty()) return role_error(kNotShared, state.shown);
    if (!state.joined)
      return role_error("the creator has no receipt: commit() knows what it wrote itself", state.shown);
    Result<std::string> text = std::string();
    Status status = state.if_open([&]() -> Status {
      std::vector<const write::RangeSet*> ranges;
      for (const auto& file : state.files) ranges.push_back(&file->written());
      text = write::receipt_text(state.session_id, state.writer_id, ranges);
      state.closed = true;
      return {};
    });
    for (std::size_t i = 0; status && i < state.files.size(); ++i)
      status = state.conclude(state.files[i]->finish_joined());
    if (!status) return std::move(status).error();
    return text;
  });
}

// Costs about the size of the receipt, however much was accepted before. All memory is allocated before the first
// change, so the receipt is added whole or not at all.
Status CheckpointWriter::accept(std::string_view receipt) noexcept {
  return with_state(state_, [&](State& state) -> Status {
    if (state.joined) return role_error("a joined writer cannot accept a receipt, only the creator can", state.shown);
    if (state.session_id.empty()) return role_error(kNotShared, state.shown);
    std::vector<std::uint64_t> data_bytes;
    for (const CheckpointFile& file : layout_.files()) data_bytes.push_back(file.header.data_bytes());
    Result<write::Receipt> parsed = write::parse_receipt(receipt, state.session_id, data_bytes);
    if (!parsed) return base::with_path(std::move(parsed).error(), state.shown);
    Status status = state.if_open([&]() -> Status {
      if (state.accepted.contains(parsed->writer)) return role_error("the receipt was already accepted", state.shown);
      for (const auto& [file, ranges] : parsed->ranges) {
        Status disjoint = state.files[file]->check_disjoint(ranges, " were written by two processes");
        if (!disjoint) return disjoint;
      }
      state.accepted.insert(parsed->writer);
      for (auto& [file, ranges] : parsed->ranges) state.files[file]->add_written(std::move(ranges));
      return {};
    });
    if (status) return state.conclude(state.meter.add(parsed->bytes));
    // Bytes that two processes wrote can never become right again.
    return status.error().code == Errc::overlapping_write ? state.conclude(std::move(status)) : status;
  });
}

Status CheckpointWriter::commit() noexcept {
  return with_state(state_, [](State& state) -> Status {
    if (!state.joined) return state.commit();
    return role_error("a joined writer cannot commit: give its receipt() to accept() of the creator", state.shown);
  });
}

Result<std::vector<std::string>> CheckpointWriter::file_names() const noexcept {
  return with_state(state_, [](const State& state) -> Result<std::vector<std::string>> {
    if (!state.folder) return write::closed_error();
    return state.folder->names();
  });
}

}  // namespace v0
}  // namespace safetensors
