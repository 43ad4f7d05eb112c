// Edits metadata: writes a new header before the same data, over the old header or in a new file that replaces the old.
#include <safetensors/writer.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "format/header/header_writer.h"
#include "io/atomic_file.h"
#include "io/progress.h"
#include "os/descriptor.h"
#include "os/file_status.h"
#include "os/open.h"
#include "os/regular_file.h"
#include "os/system_error.h"
#include "write/file_head.h"

namespace safetensors {
inline namespace v0 {
namespace {

using Edit = std::pair<std::string, std::optional<std::string>>;  // of one key

Error changed_error(std::string_view path) {
  return base::make_error(Errc::file_changed, "file was changed or replaced while it was being edited", path);
}

// Writes the text into the file that was opened, and syncs. If another file has the path by now, changes nothing: it
// compares the identities through the descriptor that it writes to. After a kill or a power cut, any part of the bytes
// can be in the file.
Status edit_in_place(std::string_view path, const File& file, std::string text, Durability durability) {
  const std::uint64_t capacity = file.header().header_bytes();
  if (text.size() > capacity)
    return base::make_error(Errc::header_does_not_fit,
                            "new header needs " + std::to_string(text.size()) + " bytes, the old one has " +
                                std::to_string(capacity) + " (write a new file instead)",
                            path);
  const auto* source = os::RegularFile::of(file.source());
  if (source == nullptr) return base::make_error(Errc::unsupported, "not a file that can be edited in place", path);
  text.resize(static_cast<std::size_t>(capacity), ' ');
  const std::string terminated(path);
  // no_wait: the path may lead to a FIFO by now. open() must not wait until a process reads from it.
  constexpr os::OpenFlags kFlags = os::OpenFlags::write | os::OpenFlags::no_wait | os::OpenFlags::no_terminal;
  os::Descriptor opened(os::retry([&] { return os::open_at(os::kWorkingDirectory, terminated.c_str(), kFlags, 0); }));
  os::FileStatus status;
  if (!opened.valid() || os::status_of(opened.get(), status) != 0)
    return os::system_error(Errc::open_failed, errno, "cannot open to write", path);
  if (status.identity != source->identity()) return changed_error(path);
  io::FileWriter writer(durability, path);
  writer.adopt(opened.release());
  if (Status written = writer.write_at(8, write::bytes_of(text)); !written) return written;
  if (durability != Durability::none && os::sync(writer.descriptor()) != 0)
    return os::system_error(Errc::sync_failed, errno, "cannot make the change durable", path);
  return {};
}

// Fails if another program has changed the file since it was opened, so that its change is not lost. This is best
// effort: no system call compares and renames at once, so a change between this check and the rename is still lost.
Status check_unchanged(std::string_view path, const File& file) {
  const auto* opened = os::RegularFile::of(file.source());
  if (opened == nullptr) return {};
  os::FileStatus status;
  if (os::status_of_path(std::string(path).c_str(), os::Symlinks::follow, status) == 0)
    return status.identity == opened->identity() ? Status() : Status(changed_error(path));
  if (errno == ENOENT || errno == ENOTDIR) return changed_error(path);
  return os::system_error(Errc::open_failed, errno, "cannot look at the edited file again", path);
}

// Closes the file before the new one takes its place: not every system replaces a file that is open.
Status edit_by_replacing(std::string_view path, File file, std::string text, const EditOptions& options) {
  if (Status status = format::pad_text(text, 8, options.metadata_slack); !status) return status;
  text.insert(0, write::prefix_of(text.size()));
  const std::uint64_t data = file.header().data_bytes();
  const std::uint64_t size = text.size() + data;  // cannot overflow: a header is small, and the data is in a file
  const Result<std::unique_ptr<io::AtomicFile>> out =
      io::AtomicFile::create(path, size, write::to_atomic_file_options(options.write));
  if (!out) return out.error();
  if (Status status = (*out)->file().write_at(0, write::bytes_of(text)); !status) return status;
  io::ProgressMeter meter(options.write.progress, size, text.size(), path);
  Status status = meter.in_steps(data, [&](std::uint64_t offset, std::uint64_t bytes) -> Status {
    Status copied =
        (*out)->file().copy_at(text.size() + offset, file.source(), file.header().data_start() + offset, bytes);
    if (!copied || offset + bytes != data) return copied;
    // The sync may take long. It belongs to the last step, so that the last report, which can cancel, comes after it.
    return (*out)->file().finish();
  });
  if (status) status = meter.finish();
  if (status) status = check_unchanged(path, file);
  if (!status) return status;
  { const File closed = std::move(file); }
  return (*out)->commit();
}

}  // namespace

Status edit_metadata(PathView path, Span<const Edit> edits, const EditOptions& options) noexcept {
  return write::with_path(path, [&]() -> Status {
    Result<File> file = File::open(path, {.access = Access::read, .parse = options.parse});
    if (!file) return file.error();
    format::MetadataEdits by_key;  // if a key is edited twice, the last edit wins
    for (const auto& [key, value] : edits) by_key[key] = &value;
    Result<std::string> text = format::edited_text(file->header(), by_key, options.metadata_slack);
    if (!text) return std::move(text).error();
    return options.in_place ? edit_in_place(path, *file, std::move(*text), options.write.durability)
                            : edit_by_replacing(path, std::move(*file), std::move(*text), options);
  });
}

}  // namespace v0
}  // namespace safetensors
