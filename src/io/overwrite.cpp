// Overwrites bytes of a file in place. overwrite() opens the path, compares the identity of the open file with the
// expected identity, and writes through the same descriptor. So if another file gets the path at any time, overwrite()
// never changes that file.
#include "io/overwrite.h"

#include <cerrno>
#include <string>

#include "base/error.h"
#include "io/file_writer.h"
#include "os/descriptor.h"
#include "os/open.h"
#include "os/system_error.h"

namespace safetensors::io {
namespace {

Error changed_error(std::string_view path) {
  return base::make_error(Errc::file_changed, "file was changed or replaced while it was being edited", path);
}

}  // namespace

Status overwrite(std::string_view path, const os::FileIdentity& expected, std::uint64_t offset,
                 std::span<const std::byte> bytes, Sync sync, os::System& system) noexcept {
  return base::guarded([&]() -> Status {
    const std::string terminated(path);
    // no_wait: the path may lead to a FIFO by now. open() must not wait until a process reads from it.
    constexpr os::OpenFlags kFlags = os::OpenFlags::write | os::OpenFlags::no_wait | os::OpenFlags::no_terminal;
    os::Descriptor file(
        os::retry([&] { return system.open_at(os::kWorkingDirectory, terminated.c_str(), kFlags, 0); }));
    if (!file.valid()) return os::system_error(Errc::open_failed, errno, "cannot open to write", path);
    os::FileStatus status;
    if (os::status_of(file.get(), status) != 0)
      return os::system_error(Errc::open_failed, errno, "cannot open to write", path);
    if (!status.is_regular())
      return base::make_error(Errc::not_regular_file,
                              std::string("not a regular file but ") + os::describe_irregular(status.kind), path);
    if (status.identity != expected) return changed_error(path);
    FileWriter writer(sync, path, system);
    writer.adopt(file.release());
    if (Status written = writer.write_at(offset, bytes); !written) return written;
    if (sync != Sync::none && system.sync(writer.descriptor()) != 0)
      return os::system_error(Errc::sync_failed, errno, "cannot make the change durable", path);
    return {};
  });
}

Status check_unchanged(std::string_view path, const os::FileIdentity& expected) noexcept {
  return base::guarded([&]() -> Status {
    os::FileStatus status;
    if (os::status_of_path(std::string(path).c_str(), os::Symlinks::follow, status) != 0) {
      const int error_number = errno;
      if (error_number == ENOENT || error_number == ENOTDIR) return changed_error(path);
      return os::system_error(Errc::open_failed, error_number, "cannot look at the edited file again", path);
    }
    if (status.identity != expected) return changed_error(path);
    return {};
  });
}

}  // namespace safetensors::io
