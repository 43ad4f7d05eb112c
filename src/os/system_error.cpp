// Turns an errno into an Error with a text that is the same on every system and in every locale.
#include "os/system_error.h"

#include <cerrno>

namespace safetensors::os {
namespace {

#ifdef _WIN32
constexpr const char* kBusy = "a program has the file open or mapped";
#else
constexpr const char* kBusy = "device or resource busy";
#endif

struct Description {
  int error_number;
  const char* text;
};

// Our own texts, because those of strerror() depend on the locale, and strerror() is not thread-safe. Two names may
// have the same number: the first row counts.
constexpr Description kDescriptions[] = {
    {EPERM, "operation not permitted"},
    {ENOENT, "no such file or directory"},
    {EINTR, "interrupted"},
    {EIO, "input/output error"},
    {ENXIO, "no such device or address"},
    {EBADF, "bad file descriptor"},
    {EAGAIN, "resource temporarily unavailable"},
    {EWOULDBLOCK, "resource temporarily unavailable"},
    {ENOMEM, "cannot allocate memory"},
    {EACCES, "permission denied"},
    {EFAULT, "bad address"},
    {EBUSY, kBusy},
    {EEXIST, "file exists"},
    {EXDEV, "it would cross file systems"},
    {ENODEV, "no such device"},
    {ENOTDIR, "not a directory"},
    {EISDIR, "is a directory"},
    {EINVAL, "invalid argument"},
    {ENFILE, "too many open files in the system"},
    {EMFILE, "too many open files"},
    {ETXTBSY, "file is being executed"},
    {EFBIG, "file too large"},
    {ENOSPC, "no space left on device"},
    {ESPIPE, "cannot seek"},
    {EROFS, "read-only file system"},
    {EMLINK, "too many links"},
    {EPIPE, "broken pipe"},
    {ERANGE, "out of range"},
    {EDEADLK, "deadlock avoided"},
    {ENAMETOOLONG, "file name too long"},
    {ENOLCK, "no locks available"},
    {ENOSYS, "not implemented by the system"},
    {ENOTEMPTY, "directory not empty"},
    {ELOOP, "too many levels of symbolic links"},
    {EOVERFLOW, "value too large"},
    {EILSEQ, "name is not valid on this file system"},
    {EOPNOTSUPP, "not supported by this file system"},
    {ENOTSUP, "not supported by this file system"},
    {ECONNREFUSED, "connection refused"},
    {ECONNRESET, "connection reset"},
    {ENOTCONN, "not connected"},
    {EHOSTUNREACH, "no route to host"},
    {ENETUNREACH, "network is unreachable"},
    {ETIMEDOUT, "timed out"},
#ifdef ESTALE  // not on Windows
    {EHOSTDOWN, "host is down"},
    {ESTALE, "stale file handle"},
    {EDQUOT, "disk quota exceeded"},
#endif
#ifdef ENOKEY  // Linux
    {EREMOTEIO, "remote input/output error"},
    {ENOKEY, "required key not available"},
    {EUCLEAN, "file system is damaged"},
    {ENOMEDIUM, "no medium found"},
#endif
    {ECANCELED, "cancelled"},
};

}  // namespace

std::string describe_errno(int error_number) {
  for (const Description& description : kDescriptions) {
    if (description.error_number == error_number) return description.text;
  }
  return "system error " + std::to_string(error_number);
}

Error system_error(Errc code, int error_number, std::string_view what, std::string_view path) {
  Error error;
  error.code = code;
  error.os_error = error_number;
  error.path = path;
  error.message.append(what).append(": ").append(describe_errno(error_number));
  return error;
}

Error read_error(int error_number, std::size_t size, std::uint64_t offset) {
  Error error = system_error(Errc::read_failed, error_number,
                             "cannot read " + std::to_string(size) + " bytes at byte " + std::to_string(offset));
  error.offset = offset;
  return error;
}

bool out_of_space(int error_number) noexcept {
#ifdef EDQUOT
  if (error_number == EDQUOT) return true;
#endif
  return error_number == ENOSPC || error_number == EFBIG;
}

}  // namespace safetensors::os
