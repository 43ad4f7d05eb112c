// Reads at offsets, and translates OpenFlags to the flags of open(). The table has one row per flag, except for read
// and write: their values in open() are numbers and not bits. macOS bypasses the page cache by a call after open().
#include "os/open.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "os/descriptor.h"

namespace safetensors::os {
namespace {

constexpr struct {
  OpenFlags flag;
  int native;
} kTable[] = {
    {OpenFlags::create, O_CREAT},        {OpenFlags::only_new, O_EXCL},      {OpenFlags::truncate, O_TRUNC},
    {OpenFlags::directory, O_DIRECTORY}, {OpenFlags::path_only, O_SEARCH},   {OpenFlags::no_follow, O_NOFOLLOW},
    {OpenFlags::no_wait, O_NONBLOCK},    {OpenFlags::no_terminal, O_NOCTTY},
};

int native_flags(OpenFlags flags) noexcept {
  int native = O_CLOEXEC | O_RDONLY;
  if (has(flags, OpenFlags::write)) native |= has(flags, OpenFlags::read) ? O_RDWR : O_WRONLY;
  for (const auto& row : kTable) {
    if (has(flags, row.flag)) native |= row.native;
  }
  return native;
}

}  // namespace

const int kWorkingDirectory = AT_FDCWD;

int open_at(int directory, const char* name, OpenFlags flags, std::uint32_t permissions) noexcept {
  if (has(flags, OpenFlags::unnamed)) {
    errno = EOPNOTSUPP;
    return -1;
  }
  Descriptor opened(::openat(directory, name, native_flags(flags), static_cast<mode_t>(permissions)));
  if (opened.valid() && has(flags, OpenFlags::direct) && ::fcntl(opened.get(), F_NOCACHE, 1) != 0) {
    opened.reset();
    errno = EINVAL;
  }
  return opened.release();
}

// macOS refuses larger reads than INT_MAX.
std::ptrdiff_t read_at(int descriptor, void* bytes, std::size_t size, std::uint64_t offset) noexcept {
  constexpr std::size_t kMax = std::size_t{1} << 30;
  return ::pread(descriptor, bytes, std::min(size, kMax), static_cast<off_t>(offset));
}

Readable readable(int descriptor) noexcept {
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0) return Readable::unknown;
  return (flags & O_EXEC) != 0 || (flags & O_ACCMODE) == O_WRONLY ? Readable::no : Readable::yes;
}

}  // namespace safetensors::os
