// Edits metadata: writes a new header before the same data, over the old header or in a new file that replaces the old.
#include <safetensors/writer.h>

#include <memory>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "format/header/header_edit.h"
#include "format/header/header_writer.h"
#include "io/atomic_file.h"
#include "io/overwrite.h"
#include "io/progress.h"
#include "os/regular_file.h"
#include "write/file_head.h"

namespace safetensors {
inline namespace v0 {
namespace {

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
  return io::overwrite(path, source->identity(), 8, write::bytes_of(text), write::to_sync(durability));
}

// Fails if another program has changed the file since it was opened, so that its change is not lost. This is best
// effort: no system call compares and renames at once, so a change between this check and the rename is still lost.
Status check_unchanged(std::string_view path, const File& file) {
  const auto* opened = os::RegularFile::of(file.source());
  return opened == nullptr ? Status() : io::check_unchanged(path, opened->identity());
}

// Closes the file before the new one takes its place: not every system replaces a file that is open.
Status edit_by_replacing(std::string_view path, File file, std::string text, const EditOptions& options) {
  if (Status status = format::pad_text(text, 8, options.metadata_slack); !status) return status;
  const Result<std::string> head = write::file_head(text);
  if (!head) return head.error();
  const std::uint64_t data = file.header().data_bytes();
  const Result<std::uint64_t> size = write::file_size(head->size(), data);
  if (!size) return size.error();
  const Result<std::unique_ptr<io::AtomicFile>> out =
      io::AtomicFile::create(path, *size, write::to_atomic_file_options(options.write));
  if (!out) return out.error();
  if (Status status = (*out)->write_at(0, write::bytes_of(*head)); !status) return status;
  io::ProgressMeter meter(options.write.progress, *size, head->size(), path);
  Status status = meter.in_steps(data, [&](std::uint64_t offset, std::uint64_t bytes) -> Status {
    Status copied = (*out)->copy_at(head->size() + offset, file.source(), file.header().data_start() + offset, bytes);
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

Status edit(std::string_view path, std::span<const MetadataEdit> edits, const EditOptions& options) {
  Result<File> file = File::open(path, {.access = Access::read, .parse = options.parse});
  if (!file) return file.error();
  format::MetadataEdits by_key;  // if a key is edited twice, the last edit wins
  for (const MetadataEdit& one : edits) by_key[one.key] = &one.value;
  Result<std::string> text = format::edited_text(file->header(), by_key, options.metadata_slack);
  if (!text) return std::move(text).error();
  return options.in_place ? edit_in_place(path, *file, std::move(*text), options.write.durability)
                          : edit_by_replacing(path, std::move(*file), std::move(*text), options);
}

}  // namespace

Status edit_metadata(PathView path, Span<const MetadataEdit> edits, const EditOptions& options) noexcept {
  Status status = base::guarded([&] { return edit(path, edits, options); });
  if (status) return status;
  return base::guarded([&] { return base::with_path(std::move(status).error(), path); });
}

}  // namespace v0
}  // namespace safetensors
