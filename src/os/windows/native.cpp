// Paths come as UTF-8 and go to Windows as UTF-16, with `\\?\` in front: then names may be long, may end with a dot,
// and no name stands for a device. Programs that do not use this prefix cannot open such names, so reserved ones are
// refused.
#include "os/windows/native.h"

#include <io.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <new>

#include "os/open.h"

namespace safetensors::os::windows {
namespace {

constexpr std::wstring_view kLong = L"\\\\?\\";
constexpr std::wstring_view kLongShare = L"\\\\?\\UNC\\";

constexpr struct {
  DWORD error;
  int number;
} kErrors[] = {
    {ERROR_FILE_NOT_FOUND, ENOENT},
    {ERROR_PATH_NOT_FOUND, ENOENT},
    {ERROR_INVALID_NAME, ENOENT},
    {ERROR_BAD_PATHNAME, ENOENT},
    {ERROR_BAD_NETPATH, ENOENT},
    {ERROR_BAD_NET_NAME, ENOENT},
    {ERROR_ACCESS_DENIED, EACCES},
    {ERROR_SHARING_VIOLATION, EBUSY},
    {ERROR_LOCK_VIOLATION, EWOULDBLOCK},
    {ERROR_USER_MAPPED_FILE, EBUSY},
    {ERROR_FILE_EXISTS, EEXIST},
    {ERROR_ALREADY_EXISTS, EEXIST},
    {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},
    {ERROR_DIRECTORY, ENOTDIR},
    {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
    {ERROR_DISK_FULL, ENOSPC},
    {ERROR_HANDLE_DISK_FULL, ENOSPC},
    {ERROR_FILE_TOO_LARGE, EFBIG},
    {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
    {ERROR_OUTOFMEMORY, ENOMEM},
    {ERROR_COMMITMENT_LIMIT, ENOMEM},
    {ERROR_NO_SYSTEM_RESOURCES, ENOMEM},
    {ERROR_WRITE_PROTECT, EROFS},
    {ERROR_NOT_SAME_DEVICE, EXDEV},
    {ERROR_INVALID_HANDLE, EBADF},
    {ERROR_BROKEN_PIPE, EPIPE},
    {ERROR_NO_DATA, EPIPE},
    {ERROR_INVALID_PARAMETER, EINVAL},
    {ERROR_NEGATIVE_SEEK, EINVAL},
    {ERROR_NOT_SUPPORTED, EOPNOTSUPP},
    {ERROR_INVALID_FUNCTION, EOPNOTSUPP},
    {ERROR_CALL_NOT_IMPLEMENTED, ENOSYS},
    {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
    {ERROR_PRIVILEGE_NOT_HELD, EPERM},
    {ERROR_CANT_RESOLVE_FILENAME, ELOOP},
    {ERROR_WORKING_SET_QUOTA, ENOMEM},
    {ERROR_PAGEFILE_QUOTA, ENOMEM},
    {ERROR_BUSY, EBUSY},
    {ERROR_DELETE_PENDING, EBUSY},
    {ERROR_NOACCESS, EFAULT},
};

bool is_separator(wchar_t c) noexcept {
  return c == L'/' || c == L'\\';
}

bool equals_ignoring_case(std::wstring_view text, std::wstring_view upper) noexcept {
  return text.size() == upper.size() && std::equal(text.begin(), text.end(), upper.begin(), [](wchar_t a, wchar_t b) {
           return (a >= L'a' && a <= L'z' ? a - L'a' + L'A' : a) == b;
         });
}

// Whether Windows gives the name to a device, with any extension: `NUL`, `com1.safetensors`.
bool is_reserved(std::wstring_view name) noexcept {
  std::wstring_view stem = name.substr(0, name.find_first_of(L".:"));
  while (stem.ends_with(L' ')) stem.remove_suffix(1);
  for (const std::wstring_view device : {L"CON", L"PRN", L"AUX", L"NUL", L"CONIN$", L"CONOUT$"}) {
    if (equals_ignoring_case(stem, device)) return true;
  }
  if (stem.size() != 4 || stem[3] < L'1' || stem[3] > L'9') return false;
  return equals_ignoring_case(stem.substr(0, 3), L"COM") || equals_ignoring_case(stem.substr(0, 3), L"LPT");
}

std::optional<std::wstring> to_wide(std::string_view text) {
  if (text.empty()) return std::wstring();
  const int size = static_cast<int>(text.size());
  const int needed = ::MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text.data(), size, nullptr, 0);
  if (needed <= 0) {
    errno = EILSEQ;
    return std::nullopt;
  }
  std::wstring wide(static_cast<std::size_t>(needed), L'\0');
  (void)::MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text.data(), size, wide.data(), needed);
  return wide;
}

bool is_absolute(std::wstring_view path) noexcept {
  return (!path.empty() && is_separator(path[0])) || (path.size() >= 2 && path[1] == L':');
}

// Makes the path absolute, and removes `.` and `..`: Windows does not do it behind the prefix for long paths.
std::optional<std::wstring> normalized(const std::wstring& path) {
  const DWORD needed = ::GetFullPathNameW(path.c_str(), 0, nullptr, nullptr);
  if (needed == 0) {
    fail();
    return std::nullopt;
  }
  std::wstring whole(needed, L'\0');
  const DWORD size = ::GetFullPathNameW(path.c_str(), needed, whole.data(), nullptr);
  if (size == 0 || size >= needed) {
    fail();
    return std::nullopt;
  }
  whole.resize(size);
  if (whole.starts_with(kLong)) return whole;
  if (whole.starts_with(L"\\\\.\\")) {  // a device
    errno = EINVAL;
    return std::nullopt;
  }
  if (whole.starts_with(L"\\\\")) return std::wstring(kLongShare) + whole.substr(2);
  return std::wstring(kLong) + whole;
}

std::optional<std::wstring> make_path(int directory, std::string_view path) {
  if (path.empty()) {
    errno = ENOENT;
    return std::nullopt;
  }
  std::optional<std::wstring> wide = to_wide(path);
  if (!wide) return std::nullopt;
  for (std::wstring_view rest = *wide; !rest.empty();) {
    const std::size_t end = std::min(rest.find_first_of(L"/\\"), rest.size());
    if (is_reserved(rest.substr(0, end))) {
      errno = EINVAL;
      return std::nullopt;
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (directory != kWorkingDirectory && !is_absolute(*wide)) {
    const HANDLE handle = handle_of(directory);
    if (handle == INVALID_HANDLE_VALUE) return std::nullopt;
    std::wstring from = path_of(handle);
    if (from.empty()) return std::nullopt;
    if (!from.ends_with(L'\\')) from += L'\\';
    *wide = from + *wide;
  }
  std::replace(wide->begin(), wide->end(), L'/', L'\\');
  if (wide->starts_with(kLong) && wide->find(L"\\.") == std::wstring::npos) return wide;
  if (wide->starts_with(kLongShare)) *wide = L"\\\\" + wide->substr(kLongShare.size());
  if (wide->starts_with(kLong)) *wide = wide->substr(kLong.size());
  return normalized(*wide);
}

}  // namespace

int fail(DWORD error) noexcept {
  const auto* const found =
      std::find_if(std::begin(kErrors), std::end(kErrors), [&](const auto& row) { return row.error == error; });
  errno = found == std::end(kErrors) ? EIO : found->number;
  return -1;
}

int fail() noexcept {
  return fail(::GetLastError());
}

HANDLE handle_of(int descriptor) noexcept {
  if (descriptor < 0) {
    errno = EBADF;
    return INVALID_HANDLE_VALUE;
  }
  return reinterpret_cast<HANDLE>(::_get_osfhandle(descriptor));
}

std::optional<std::wstring> native_path(int directory, std::string_view path) noexcept {
  try {
    return make_path(directory, path);
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return std::nullopt;
  }
}

std::wstring path_of(HANDLE handle) noexcept {
  try {
    const DWORD needed = ::GetFinalPathNameByHandleW(handle, nullptr, 0, FILE_NAME_NORMALIZED);
    std::wstring path(needed, L'\0');
    const DWORD size = ::GetFinalPathNameByHandleW(handle, path.data(), needed, FILE_NAME_NORMALIZED);
    if (size == 0 || size > needed) {
      fail();
      return {};
    }
    path.resize(size);
    return path;
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return {};
  }
}

std::string plain_utf8(std::wstring_view text) {
  const int size = static_cast<int>(text.size());
  const int needed = ::WideCharToMultiByte(CP_UTF8, 0, text.data(), size, nullptr, 0, nullptr, nullptr);
  std::string utf8(static_cast<std::size_t>(std::max(needed, 0)), '\0');
  (void)::WideCharToMultiByte(CP_UTF8, 0, text.data(), size, utf8.data(), needed, nullptr, nullptr);
  return utf8;
}

std::string to_utf8(std::wstring_view text) {
  std::wstring plain;
  if (text.starts_with(kLongShare))
    plain = L"\\\\" + std::wstring(text.substr(kLongShare.size()));
  else
    plain = text.substr(text.starts_with(kLong) ? kLong.size() : 0);
  std::string utf8 = plain_utf8(plain);
  std::replace(utf8.begin(), utf8.end(), '\\', '/');
  return utf8;
}

}  // namespace safetensors::os::windows
