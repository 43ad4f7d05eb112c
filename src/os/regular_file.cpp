// Opens regular files, reads them at offsets, and maps them.
//
// A read at an offset has no shared file position, so threads can read through one descriptor without a lock. A file
// that is closed between two uses is opened again by its path; the identity taken at the first open detects a file that
// was replaced or changed meanwhile.
#include "os/regular_file.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "os/memory.h"
#include "os/open.h"
#include "os/path.h"
#include "os/residency.h"
#include "os/system.h"
#include "os/system_error.h"

namespace safetensors::os {
namespace {

constexpr std::size_t kMaxRead = 0x7ffff000;  // bytes; the limit of Linux for one read

Error irregular_error(FileKind kind, std::string_view path) {
  Error error =
      base::make_error(Errc::not_regular_file, std::string("not a regular file but ") + describe_irregular(kind), path);
  if (kind == FileKind::directory) error.os_error = EISDIR;
  return error;
}

// The file may have become a FIFO, and open() must not wait for its writer. A terminal must not become the controlling
// terminal.
int open_readable(const char* path) noexcept {
  return retry(
      [&] { return open_at(kWorkingDirectory, path, OpenFlags::read | OpenFlags::no_wait | OpenFlags::no_terminal); });
}

Error changed_error(const FileIdentity& then, const FileIdentity& now) {
  if (!then.same_file(now))
    return base::make_error(Errc::file_changed,
                            "file was replaced: its path leads to another file than the one opened");
  if (then.size != now.size)
    return base::make_error(Errc::file_changed, "file was changed: it had " + std::to_string(then.size) +
                                                    " bytes when it was opened, now it has " +
                                                    std::to_string(now.size));
  return base::make_error(Errc::file_changed, "file was changed after it was opened: its change time is another");
}

Error shorter_error(std::uint64_t size, std::uint64_t offset, std::uint64_t end) {
  Error error = base::make_error(
      Errc::file_truncated, "file became shorter: " + std::to_string(size) + " bytes at byte " +
                                std::to_string(offset) + " were asked for, it now ends at byte " + std::to_string(end));
  error.offset = end;
  return error;
}

Result<Descriptor> open_first(const std::string& path) {
  // Check before open(): some devices act when they are opened, such as a tape that rewinds.
  FileStatus status;
  if (status_of_path(path.c_str(), Symlinks::follow, status) != 0) {
    Error error = system_error(Errc::open_failed, errno, "cannot open", path);
    if (error.os_error == ENOENT && status_of_path(path.c_str(), Symlinks::keep, status) == 0 && status.is_symlink())
      error.message += " (the path is a symlink to nothing)";
    return error;
  }
  if (!status.is_regular()) return irregular_error(status.kind, path);
  Descriptor descriptor(open_readable(path.c_str()));
  if (!descriptor.valid()) return system_error(Errc::open_failed, errno, "cannot open", path);
  return descriptor;
}

Result<Descriptor> open_again(const std::string& path, const FileIdentity& identity) {
  const auto refused = [] { return system_error(Errc::open_failed, errno, "cannot open again"); };
  // Check before open() as above, and again after it, because the file can be replaced in between.
  FileStatus status;
  if (status_of_path(path.c_str(), Symlinks::follow, status) != 0) return refused();
  if (status.identity != identity) return changed_error(identity, status.identity);
  Descriptor descriptor(open_readable(path.c_str()));
  if (!descriptor.valid() || status_of(descriptor.get(), status) != 0) return refused();
  if (status.identity != identity) return changed_error(identity, status.identity);
  return descriptor;
}

}  // namespace

// In the order of FileKind.
const char* describe_irregular(FileKind kind) noexcept {
  static constexpr const char* kTexts[] = {"something unknown", nullptr,   "a directory",
                                           "a symbolic link",   "a FIFO",  "a character device",
                                           "a block device",    "a socket"};
  return kTexts[static_cast<std::size_t>(kind)];
}

Result<std::shared_ptr<const RegularFile>> RegularFile::of_descriptor(Descriptor descriptor, const std::string& path,
                                                                      Between between) {
  FileStatus status;
  if (status_of(descriptor.get(), status) != 0) return system_error(Errc::open_failed, errno, "cannot open", path);
  if (!status.is_regular()) return irregular_error(status.kind, path);
  std::shared_ptr<RegularFile> file(new RegularFile);
  file->identity_ = status.identity;
  file->file_system_ = file_system_of(descriptor.get());
  if (file->file_system_ == FileSystem::kernel)
    return base::make_error(Errc::not_regular_file, "not a regular file but one that the kernel makes up (/proc, /sys)",
                            path);
  if (between == Between::is_closed)
    file->path_ = absolute_path(path);
  else
    file->descriptor_ = std::move(descriptor);
  return std::shared_ptr<const RegularFile>(std::move(file));
}

Result<std::shared_ptr<const RegularFile>> RegularFile::open(std::string_view path, Between between) noexcept {
  return base::guarded([&]() -> Result<std::shared_ptr<const RegularFile>> {
    if (path.find('\0') != std::string_view::npos)
      return base::make_error(Errc::invalid_argument, "path contains a zero byte", path);
    const std::string terminated(path);
    Result<Descriptor> descriptor = open_first(terminated);
    if (!descriptor) return std::move(descriptor).error();
    return of_descriptor(*std::move(descriptor), terminated, between);
  });
}

Result<std::shared_ptr<const RegularFile>> RegularFile::from_fd(int descriptor) noexcept {
  return base::guarded([&]() -> Result<std::shared_ptr<const RegularFile>> {
    Descriptor copy(duplicate_for_reading(descriptor));
    const int error_number = errno;
    const std::string shown = "descriptor " + std::to_string(descriptor);
    if (!copy.valid() && error_number == EACCES)
      return base::make_error(Errc::open_failed, shown + " is not open for reading");
    if (!copy.valid()) return system_error(Errc::open_failed, error_number, "cannot use " + shown);
    return take(std::move(copy));
  });
}

Result<std::shared_ptr<const RegularFile>> RegularFile::take(Descriptor descriptor) noexcept {
  return base::guarded([&] { return of_descriptor(std::move(descriptor), {}, Between::stays_open); });
}

Result<Lease> RegularFile::lease() const noexcept {
  if (descriptor_.valid()) return Lease(descriptor_.get());
  return base::guarded([&]() -> Result<Lease> {
    Result<Descriptor> descriptor = open_again(path_, identity_);
    if (!descriptor) return std::move(descriptor).error();
    return Lease(*std::move(descriptor));
  });
}

Result<std::size_t> RegularFile::read_at(std::uint64_t offset, Span<std::byte> destination) const noexcept {
  if (destination.empty() || offset >= kMaxOffset) return std::size_t{0};
  std::size_t length = std::min(destination.size(), kMaxRead);
  length = static_cast<std::size_t>(std::min<std::uint64_t>(length, kMaxOffset - offset));
  Result<Lease> descriptor = lease();
  if (!descriptor) return std::move(descriptor).error();
  const std::ptrdiff_t count =
      retry([&] { return os::read_at(descriptor->get(), destination.data(), length, offset); });
  if (count >= 0) return static_cast<std::size_t>(count);
  const int error_number = errno;
  return base::guarded([&]() -> Result<std::size_t> { return read_error(error_number, length, offset); });
}

Result<Mapping> RegularFile::map(std::uint64_t offset, std::uint64_t size, MapMode mode) const noexcept {
  return base::guarded([&]() -> Result<Mapping> {
    if (size == 0) return Mapping{};
    const Result<Lease> descriptor = lease();
    if (!descriptor) return descriptor.error();
    FileStatus status;
    if (status_of(descriptor->get(), status) != 0) return system_error(Errc::map_failed, errno, "cannot map");
    // Compare with the size of the file now: an access past its end would raise SIGBUS.
    const std::uint64_t available = status.identity.size;
    if (offset > available || size > available - offset) return shorter_error(size, offset, available);
    const auto page = std::uint64_t{page_size()};
    // A map begins at a page boundary.
    const std::uint64_t skipped = offset % page;
    const std::uint64_t length = size + skipped;
    if (length > std::numeric_limits<std::ptrdiff_t>::max())
      return system_error(Errc::map_failed, ENOMEM, "cannot map " + std::to_string(size) + " bytes");
    void* const address = map_file(descriptor->get(), offset - skipped, static_cast<std::size_t>(length), mode);
    if (address == nullptr)
      return system_error(Errc::map_failed, errno,
                          "cannot map " + std::to_string(size) + " bytes at byte " + std::to_string(offset));
    // If the allocation of its counter fails, the shared_ptr calls the deleter itself. So the mapping does not leak.
    std::shared_ptr<const void> owner(
        address, [length](void* begin) noexcept { unmap_file(begin, static_cast<std::size_t>(length)); });
    // Page faults of several threads then read ahead in larger windows. MADV_SEQUENTIAL would read each window only
    // when a thread needs it: between threads that touch different tensors, the system sees no sequence.
    if (mode == MapMode::copy_on_write && file_system() == FileSystem::local)
      advise_cache(descriptor->get(), 0, 0, CacheAdvice::sequential);
    return Mapping{{static_cast<std::byte*>(address) + skipped, static_cast<std::size_t>(size)}, std::move(owner)};
  });
}

Status read_exactly(const Source& source, std::uint64_t offset, std::span<std::byte> destination,
                    base::Cancellation* cancellation, const std::function<void(std::size_t bytes)>& counted) noexcept {
  std::size_t done = 0;
  while (done < destination.size()) {
    if (cancellation != nullptr && cancellation->requested()) return base::opening_cancelled();
    const std::span<std::byte> rest = destination.subspan(done);
    Result<std::size_t> count = source.read_at(offset + done, rest);
    if (counted) counted(count ? std::min(*count, rest.size()) : 0);
    if (!count) return std::move(count).error();
    if (*count == 0)
      return base::guarded([&]() -> Status { return shorter_error(destination.size(), offset, offset + done); });
    done += *count;
  }
  return {};
}

}  // namespace safetensors::os
