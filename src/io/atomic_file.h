// Writing a file so that its path leads to the old one or the new one, never to a mix.
#pragma once

#include <safetensors/error.h>
#include <safetensors/source.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/file_writer.h"
#include "io/target.h"
#include "os/system.h"

namespace safetensors::io {

struct AtomicFileOptions {
  Sync sync = Sync::full;
  bool in_place_if_no_rename = false;
  Links links = Links::follow;
};

// A new file that commit() puts in the target's place. Without commit(), or after any error before that, the target is
// as it was and nothing is beside it. Where nothing was at the path and the file system can (O_TMPFILE), the new file
// has no name until it is linked there: a process that is killed leaves nothing. Else it is a temporary beside the
// target that is renamed over it: a process that is killed leaves the temporary, for clean_directory() to find.
class AtomicFile {
 public:
  // size: how large the file will be; every byte of it must be written. system must outlive the AtomicFile.
  // Errors: resolve_target's, open_failed, write_failed (too large, or no space to set aside).
  [[nodiscard]] static Result<std::unique_ptr<AtomicFile>> create(std::string_view path, std::uint64_t size,
                                                                  const AtomicFileOptions& options,
                                                                  os::System& system = os::real_system()) noexcept;
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // See FileWriter's.
  [[nodiscard]] Status write_at(std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
    return file_.write_at(offset, bytes);
  }
  [[nodiscard]] Status copy_at(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t size,
                               bool* source_failed = nullptr) noexcept {
    return file_.copy_at(offset, source, from, size, source_failed);
  }
  [[nodiscard]] FileWriter& file() noexcept { return file_; }

  // Finishes the file unless that was done, replace(), sync_directory(). Once, and not while another call runs.
  // Errors: FileWriter::finish's and those of the two.
  [[nodiscard]] Status commit() noexcept;

  // The steps of commit(), for several files that take their places together; file().finish() comes before.
  // Error not_regular_file, unless replace() may do its work now.
  [[nodiscard]] Status check() const noexcept;
  // Errors: not_regular_file, replace_failed, unsupported (no rename here).
  [[nodiscard]] Status replace() noexcept;
  // Error replaced_not_durable: the only one after which the new file is in place.
  [[nodiscard]] Status sync_directory() noexcept;

  // What tells one target from another.
  struct Place {
    std::uint64_t device = 0;
    std::uint64_t directory = 0;
    std::string name;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  [[nodiscard]] Place place() const;

 private:
  AtomicFile(Target target, std::string_view path, const AtomicFileOptions& options, os::System& system);
  Status open_temporary();
  bool open_anonymous() noexcept;
  Status open_named();
  bool keeps_its_name() noexcept;
  void adopt_mode_and_owner() noexcept;
  Status preallocate(std::uint64_t size);
  Status link();
  int link_as(const std::string& name) noexcept;
  Status copy_to_named();
  Status rename();
  Status write_in_place();
  bool rename_unsupported(int number) const noexcept;
  void discard() noexcept;

  os::System& system_;
  const std::string path_;
  const AtomicFileOptions options_;
  Target target_;
  std::string temporary_;   // empty: none there
  bool anonymous_ = false;  // the new file has no name yet
  FileWriter file_;
  pid_t process_ = 0;  // a forked child must not remove its parent's temporary
};

// Puts finished files in place, and syncs each directory once. What can be known to fail fails before the first of them
// takes its place. Errors: those of check(), replace() and sync_directory(); the message says how many files were
// replaced before it.
[[nodiscard]] Status replace_all(std::span<const std::unique_ptr<AtomicFile>> files) noexcept;

}  // namespace safetensors::io
