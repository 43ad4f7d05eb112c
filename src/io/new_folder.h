// A folder that appears at once, with all of its files.
#pragma once

#include <safetensors/error.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "io/file_writer.h"
#include "os/descriptor.h"
#include "os/system.h"

namespace safetensors::io {

// A temporary folder that commit() renames. A killed process leaves the temporary folder, which clean_directory()
// finds. The object holds the folder's lock, in the same way as the writer of a temporary file.
class NewFolder {
 public:
  // Makes the temporary folder next to `path`. system must outlive the NewFolder. Errors: open_failed; replace_failed
  // with EEXIST (something is at the path).
  [[nodiscard]] static Result<std::unique_ptr<NewFolder>> create(std::string_view path, Sync sync,
                                                                 os::System& system = os::real_system());
  // Without commit(), removes the temporary folder and the files in it.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  // The path of the temporary folder.
  [[nodiscard]] const std::string& path() const noexcept { return temporary_path_; }
  // Its name in the directory above.
  [[nodiscard]] const std::string& temporary() const noexcept { return temporary_; }

  // Renames the folder and syncs its parent. The files in it must be in place. Errors: replace_failed,
  // replaced_not_durable (the only error after which the new folder is in place).
  [[nodiscard]] Status commit();

 private:
  NewFolder(std::string_view path, Sync sync, os::System& system);
  Status make();
  bool keeps_its_name() noexcept;
  [[nodiscard]] bool is_replaced() const noexcept;
  void discard() noexcept;

  os::System& system_;
  const std::string path_;  // of the folder, without separators at its end
  const Sync sync_;
  os::Descriptor parent_;
  std::string parent_path_;  // empty, or ends with a separator
  std::string name_;
  std::string temporary_;  // the name of the temporary folder; empty if there is none
  std::string temporary_path_;
  os::Descriptor folder_;        // holds the lock
  const std::uint64_t process_;  // the child of a fork must not remove its parent's folder
};

// Removes all regular files and symlinks in a directory. Returns 0 or errno.
[[nodiscard]] int remove_files(int directory, const std::string& path, os::System& system);

}  // namespace safetensors::io
