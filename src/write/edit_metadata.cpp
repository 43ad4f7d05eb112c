// Edits metadata: writes a new header before the same data, over the old header or in a new file that replaces the old.
#include <safetensors/writer.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "format/header_writer.h"
#include "format/printable.h"
#include "io/atomic_file.h"
#include "io/overwrite.h"
#include "io/progress.h"
#include "json/writer.h"
#include "os/posix_file.h"
#include "write/file_head.h"

namespace safetensors {
inline namespace v0 {
namespace {

// If a key is edited twice, the last edit wins.
using Edits = std::map<std::string_view, const MetadataEdit*>;

// Returns an upper bound for the size of the text, in bytes. A string that grows takes up to three times the memory.
std::size_t max_text_size(const Header& header, const Edits& edits, const EditOptions& options) {
  std::size_t size = static_cast<std::size_t>(header.header_bytes()) + std::string_view("\"__metadata__\":{},").size();
  for (const auto& [key, edit] : edits) {
    if (edit->value) size += json::string_size(key) + json::string_size(*edit->value) + std::string_view(":,").size();
  }
  return size + static_cast<std::size_t>(std::min(options.metadata_slack, format::kMaxHeaderBytes)) + 8;
}

// Writes the text of the header with other metadata. It merges two sorted lists, because a header may have millions of
// pairs. `__metadata__` stays present even if its last key is removed. Error: invalid_utf8.
Result<std::string> edited_text(const Header& header, std::span<const MetadataEdit> list, const EditOptions& options) {
  const Metadata metadata = header.metadata();
  bool present = metadata.present();
  Edits edits;
  for (const MetadataEdit& edit : list) {
    edits[edit.key] = &edit;
    present = present || edit.value;
  }
  for (const auto& [key, edit] : edits) {
    if (!edit->value) continue;
    if (Status status = format::check_utf8("metadata key", key, key); !status) return std::move(status).error();
    if (Status status = format::check_utf8("metadata value of", key, *edit->value); !status)
      return std::move(status).error();
  }
  format::HeaderWriter writer;
  writer.reserve(max_text_size(header, edits, options));
  if (present) {
    writer.begin_metadata();
    auto edit = edits.begin();
    const auto write_edits = [&](const auto& before) {
      for (; edit != edits.end() && before(edit->first); ++edit) {
        if (edit->second->value) writer.pair(edit->first, *edit->second->value);
      }
    };
    for (const auto& [name, value] : metadata) {
      const std::string_view key = name;
      write_edits([&](std::string_view other) { return other < key; });
      if (edit == edits.end() || edit->first != key) writer.pair(key, value);
    }
    write_edits([](std::string_view) { return true; });
    writer.end_metadata();
  }
  writer.tensors(header.tensors());
  return std::move(writer).finish();
}

Status edit_in_place(std::string_view path, const File& file, std::string text, Durability durability) {
  const std::uint64_t capacity = file.header().header_bytes();
  if (text.size() > capacity)
    return base::make_error(Errc::header_does_not_fit,
                            "new header needs " + std::to_string(text.size()) + " bytes, the old one has " +
                                std::to_string(capacity) + " (write a new file instead)",
                            path);
  const auto* source = dynamic_cast<const os::PosixFile*>(&file.source());
  if (source == nullptr) return base::make_error(Errc::unsupported, "not a file that can be edited in place", path);
  text.resize(static_cast<std::size_t>(capacity), ' ');
  return io::overwrite(path, source->identity(), 8, write::bytes_of(text), write::to_sync(durability));
}

// Fails if another program has changed the file since it was opened, so that its change is not lost. This is best
// effort: no system call compares and renames at once, so a change between this check and the rename is still lost.
Status check_unchanged(std::string_view path, const File& file) {
  const auto* opened = dynamic_cast<const os::PosixFile*>(&file.source());
  return opened == nullptr ? Status() : io::check_unchanged(path, opened->identity());
}

Status edit_by_replacing(std::string_view path, const File& file, std::string text, const EditOptions& options) {
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
  return status ? (*out)->commit() : status;
}

Status edit(std::string_view path, std::span<const MetadataEdit> edits, const EditOptions& options) {
  const Result<File> file = File::open(path, {.access = Access::read, .parse = options.parse});
  if (!file) return file.error();
  Result<std::string> text = edited_text(file->header(), edits, options);
  if (!text) return std::move(text).error();
  return options.in_place ? edit_in_place(path, *file, std::move(*text), options.write.durability)
                          : edit_by_replacing(path, *file, std::move(*text), options);
}

}  // namespace

Status edit_metadata(PathView path, std::span<const MetadataEdit> edits, const EditOptions& options) noexcept {
  Status status = base::guarded([&] { return edit(path, edits, options); });
  if (status) return status;
  return base::guarded([&] { return base::with_path(std::move(status).error(), path); });
}

}  // namespace v0
}  // namespace safetensors
