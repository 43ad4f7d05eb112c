// Writing a file so that its path leads to the old one or the new one, never to a mix.
#pragma once

#include <safetensors/error.h>
#include <safetensors/source.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/system.h"
#include "io/target.h"

namespace safetensors::io {

// What survives a power cut once commit() has returned.
enum class Sync : std::uint8_t {
  none,  // nothing is promised
  file,  // the old file or the new one
  full,  // the new one
};

struct ReplaceOptions {
  Sync sync = Sync::full;
  bool in_place_if_no_rename = false;
};

// A temporary file beside the target that commit() renames over it. Without commit(), or after any error before the
// rename, the target is as it was and the temporary is removed; a process that is killed leaves the temporary.
class Replacement {
 public:
  // size: how large the file will be; every byte of it must be written. system must outlive the Replacement.
  // Errors: resolve_target's, open_failed, write_failed (too large, or no space to set aside).
  [[nodiscard]] static Result<std::unique_ptr<Replacement>> create(std::string_view path, std::uint64_t size,
                                                                   const ReplaceOptions& options,
                                                                   System& system = real_system()) noexcept;
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  // From any number of threads at once. Error: write_failed.
  [[nodiscard]] Status write_at(std::uint64_t offset, std::span<const std::byte> bytes) noexcept;
  // Copies [from, from + size) of source, by the system where both are files, else through a buffer of 1 MiB.
  // From any number of threads at once. Errors: write_failed, read_failed, file_truncated, out_of_memory.
  [[nodiscard]] Status copy_at(std::uint64_t offset, const Source& source, std::uint64_t from,
                               std::uint64_t size) noexcept;

  // Once, and not while another call runs. Errors: sync_failed, write_failed, not_regular_file, replace_failed,
  // unsupported (no rename here), replaced_not_durable (the only one after which the new file is in place).
  [[nodiscard]] Status commit() noexcept;

 private:
  Replacement(Target target, std::string_view path, const ReplaceOptions& options, System& system);
  Status open_temporary();
  void adopt_mode_and_owner() noexcept;
  Status preallocate(std::uint64_t size);
  Status after_writing(std::size_t written);
  Status write_failed(int number, std::size_t size, std::uint64_t offset) const;
  Status finish_temporary();
  Status rename();
  Status write_in_place();
  Status copy_to_target(int from, int to);
  Status sync_directory();
  bool rename_unsupported(int number) const noexcept;
  void discard() noexcept;

  System& system_;
  const std::string path_;
  const ReplaceOptions options_;
  Target target_;
  std::string temporary_;  // empty: none there
  int descriptor_ = -1;
  pid_t process_ = 0;  // a forked child must not remove its parent's temporary
  std::atomic<std::uint64_t> unflushed_{0};
};

}  // namespace safetensors::io
