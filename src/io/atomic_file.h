// Writes a file atomically: its path leads to the old file or to the new file, never to a mix.
#pragma once

#include <safetensors/durability.h>
#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "io/file_writer.h"
#include "os/descriptor.h"
#include "os/file_status.h"
#include "os/system.h"

namespace safetensors::io {

// Treatment of a symlink in the last component. follow: a write replaces the file behind the link. replace: a write
// replaces the link. refuse: a write replaces nothing, neither a link nor a file.
enum class Links : std::uint8_t { follow, replace, refuse };

// A name in a directory. When the path was resolved, it was free or led to a regular file; with Links::replace, it
// could also be a symlink.
struct Target {
  os::Descriptor directory;
  bool directory_readable = true;  // false: the directory cannot be synced through its descriptor
  std::string name;
  Links links = Links::follow;
  std::optional<os::FileStatus> old;  // the regular file at the path, or behind a link that is replaced
};

// With Links::follow, a dangling link resolves to the name that it contains. Links::replace refuses links to devices,
// FIFOs and sockets, and links into /proc, such as /dev/stdout. It accepts all other links, dangling ones too. Errors:
// invalid_argument (a zero byte in the path), open_failed, not_regular_file, replace_failed with EEXIST (Links::refuse:
// the path is in use).
[[nodiscard]] Result<Target> resolve_target(std::string_view path, Links links = Links::follow);

// Returns not_regular_file unless the target now is free, a regular file, or a link that may be replaced. With
// Links::refuse, returns replace_failed unless the target is free.
[[nodiscard]] Status check_replaceable(const Target& target, std::string_view path);

struct AtomicFileOptions {
  Durability durability = Durability::full;
  bool in_place_if_no_rename = false;
  Links links = Links::follow;
  // Other processes open the file, too: see TensorFile::join(). So it always has a name, and its owner may read and
  // write it until finish() gives it the mode and the owner of the old file.
  bool shared = false;
  // Before a file is replaced, remove the temporaries of killed writers beside it. Before a file of less than 16 MiB,
  // look at 1,000 names of the directory only.
  bool remove_orphans = false;
  // A file that the new one does not replace, but whose mode and owner it gets.
  std::optional<os::FileStatus> like = std::nullopt;
};

// A new file that commit() puts in place of the target. Without commit(), and after any earlier error, the target is
// unchanged and the directory has no other file.
//
// If nothing is at the path and the file system supports O_TMPFILE, the new file has no name until commit() links it. A
// killed process leaves nothing then. Otherwise the new file is a temporary in the target's directory, and commit()
// renames it. A killed process then leaves the temporary, which clean_directory() finds. With Links::refuse, commit()
// links the temporary, too: unlike a rename, a link replaces nothing.
class AtomicFile {
 public:
  // shown: the path that errors show; empty: the path.
  // size: the size of the file in bytes. The caller must write every byte. 0: the size is unknown, so no space is
  // reserved and the bytes go through the page cache.
  // Errors: those of resolve_target(), open_failed, write_failed (the file is too large, or there is no space for it).
  [[nodiscard]] static Result<std::unique_ptr<AtomicFile>> create(std::string_view path, std::uint64_t size,
                                                                  const AtomicFileOptions& options,
                                                                  std::string_view shown = {}) noexcept;
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Writes the bytes.
  [[nodiscard]] FileWriter& file() noexcept { return file_; }
  // The path that errors show.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  // The name of the temporary file in its directory. Empty: it has none.
  [[nodiscard]] const std::string& temporary() const noexcept { return temporary_; }
  // Makes the bytes written so far visible to other machines. Does nothing on a local file system. Error: sync_failed.
  [[nodiscard]] Status publish();
  // Completes a shared file: its mode, and then file().finish(). Idempotent. Errors: those of FileWriter::finish().
  [[nodiscard]] Status finish();

  // Calls finish(), replace() and sync_directory(). Must be called only once,
  // and not while another call runs. Errors: those of the three functions.
  [[nodiscard]] Status commit() noexcept;

  // Gives the new file another name in the directory of the target. The old file at the path stays, and the new file
  // still gets its mode. If the name is in use, replace() fails with EEXIST. Call it before check().
  void rename_target(std::string name) noexcept {
    target_.name = std::move(name);
    target_.links = Links::refuse;
  }

  // The steps of commit(), for several files that are replaced together. Call finish() before them.
  // check() returns the error of check_replaceable().
  [[nodiscard]] Status check() const noexcept;
  // Errors: those of check(), replace_failed, unsupported (the file system cannot rename).
  [[nodiscard]] Status replace() noexcept;
  // Error: replaced_not_durable. It is the only error after which the new file is in place.
  [[nodiscard]] Status sync_directory() noexcept;

  // Removes the file that replace() has put in place under the name that rename_target() gave. Ignores errors.
  void take_back() noexcept;

 private:
  AtomicFile(Target target, std::string_view path, const AtomicFileOptions& options);
  [[nodiscard]] std::uint32_t first_mode() const noexcept;
  bool open_anonymous() noexcept;
  Status open_named();
  void adopt_mode_and_owner() noexcept;
  Status preallocate(std::uint64_t size);
  Status link();
  int link_as(const std::string& name) noexcept;
  Status copy_to_named();
  Status rename();
  Status write_in_place();
  int open_in_place() noexcept;
  bool rename_unsupported(int error_number) const noexcept;
  void discard() noexcept;

  const std::string path_;
  const AtomicFileOptions options_;
  Target target_;
  std::string temporary_;   // the name of the temporary file, or empty without a temporary file
  bool anonymous_ = false;  // the new file has no name yet
  FileWriter file_;
  std::uint64_t process_ = 0;  // the child of a fork must not remove its parent's temporary
};

}  // namespace safetensors::io
