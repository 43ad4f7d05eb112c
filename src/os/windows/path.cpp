// Paths come as UTF-8 and go to Windows as UTF-16, with `\\?\` in front: then paths may be long, names may end with a
// dot or a space, and no name stands for a device. Programs that do not use this prefix cannot open such names of
// devices, so they are refused.
//
// Behind the prefix Windows resolves neither `.` nor `..`. So this file does it, by the text alone, as Windows does for
// other paths: a `..` behind a symlink leads to the folder of the link.
#include "os/path.h"

#include <algorithm>
#include <cerrno>
#include <new>

#include "os/open.h"
#include "os/windows/native.h"

namespace safetensors::os {
namespace windows {
namespace {

constexpr std::wstring_view kLong = L"\\\\?\\";
constexpr std::wstring_view kLongShare = L"\\\\?\\UNC\\";
constexpr std::wstring_view kDevice = L"\\\\.\\";
constexpr std::size_t kMaxName = 255;  // units of UTF-16, the limit of NTFS

// Returns the path that a function of Windows writes. call: takes a buffer and its size in units of UTF-16, and returns
// the number of units. Empty, with errno, after a failure.
template <class Call>
std::wstring written_by(const Call& call) {
  std::wstring path(std::size_t{1} << 15, L'\0');  // no path is longer
  const DWORD size = call(path.data(), static_cast<DWORD>(path.size()));
  if (size == 0 || size >= path.size()) fail(size == 0 ? ::GetLastError() : ERROR_FILENAME_EXCED_RANGE);
  path.resize(size < path.size() ? size : 0);
  return path;
}

// Empty, with errno, after a failure.
std::wstring to_wide(std::string_view text) {
  const int size = static_cast<int>(text.size());
  const int needed = ::MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text.data(), size, nullptr, 0);
  if (needed <= 0) errno = text.empty() ? ENOENT : EILSEQ;
  std::wstring wide(static_cast<std::size_t>(std::max(needed, 0)), L'\0');
  (void)::MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text.data(), size, wide.data(), needed);
  return wide;
}

bool begins_with_drive(std::wstring_view path) noexcept {
  return path.size() >= 2 && path[1] == L':' && ((path[0] | 0x20) >= L'a' && (path[0] | 0x20) <= L'z');
}

// Takes the first component from a path without a separator in front.
std::wstring_view take_name(std::wstring_view& path) noexcept {
  const std::size_t end = std::min(path.find(L'\\'), path.size());
  const std::wstring_view name = path.substr(0, end);
  path.remove_prefix(std::min(end + 1, path.size()));
  return name;
}

// Puts the prefix for long paths in front of an absolute path. It may have one already.
std::wstring with_prefix(std::wstring_view path) {
  if (path.empty() || path.starts_with(kLong)) return std::wstring(path);
  if (path.starts_with(L"\\\\")) return std::wstring(kLongShare).append(path.substr(2));
  return std::wstring(kLong).append(path);
}

// Returns what Windows makes of `.` or `C:.`: the working directory, or that of a drive.
std::wstring full_path(const std::wstring& path) {
  return with_prefix(
      written_by([&](wchar_t* to, DWORD size) { return ::GetFullPathNameW(path.c_str(), size, to, nullptr); }));
}

// Returns the length of the part that `..` does not leave: `\\?\C:` or `\\?\UNC\server\share`.
std::size_t root_size(std::wstring_view whole) noexcept {
  const bool share = whole.starts_with(kLongShare);
  std::size_t end = std::min(whole.find(L'\\', share ? kLongShare.size() : kLong.size()), whole.size());
  if (share && end < whole.size()) end = std::min(whole.find(L'\\', end + 1), whole.size());
  return end;
}

// Returns an absolute path with the prefix, in which `.` and `..` are still names. Empty, with errno, after a failure.
std::wstring with_base(int directory, const std::wstring& path) {
  if (path.starts_with(kDevice)) return errno = EINVAL, std::wstring();
  const bool drive = begins_with_drive(path);
  if (path.starts_with(L"\\\\") || (drive && path.substr(2).starts_with(L'\\'))) return with_prefix(path);
  const std::wstring rest = drive ? path.substr(2) : path;
  std::wstring base = drive                            ? full_path(path.substr(0, 2) + L".")
                      : directory == kWorkingDirectory ? full_path(L".")
                                                       : path_of(handle_of(directory));
  if (base.empty()) return base;
  if (rest.starts_with(L'\\')) base.resize(root_size(base));  // at the root of the volume
  return base.append(L"\\").append(rest);
}

// Returns whether a file of ours may have this name. Sets errno if not. A colon leads to another stream of a file.
// Windows gives some names to devices: `NUL`. Before Windows 11, it gave them these names with any extension, too. So
// this function asks about the name without an extension.
bool is_allowed(const std::wstring& name) {
  wchar_t full[16] = {};  // of a device: `\\.\NUL`; longer paths are not written
  (void)::GetFullPathNameW(name.substr(0, name.find_first_of(L".:")).c_str(), 16, full, nullptr);
  const bool special = name.find(L':') != std::wstring::npos || std::wstring_view(full).starts_with(kDevice);
  if (!special && name.size() <= kMaxName) return true;
  errno = special ? EINVAL : ENAMETOOLONG;
  return false;
}

std::optional<std::wstring> make_path(int directory, std::string_view text) {
  std::wstring wide = to_wide(text);
  if (wide.empty()) return std::nullopt;
  std::replace(wide.begin(), wide.end(), L'/', L'\\');
  std::wstring whole = with_base(directory, wide);
  if (whole.empty()) return std::nullopt;
  std::size_t root = root_size(whole);
  const std::wstring names = whole.substr(root);
  whole.resize(root);
  while (whole.ends_with(L'\\')) whole.pop_back();  // of `\\server\\share`
  root = whole.size();
  for (std::wstring_view rest = names; !rest.empty();) {
    const std::wstring name(take_name(rest));
    if (name == L"..") {
      whole.resize(std::max(whole.rfind(L'\\'), root));
    } else if (!name.empty() && name != L".") {
      if (!is_allowed(name)) return std::nullopt;
      whole.append(L"\\").append(name);
    }
  }
  if (whole.size() == root) whole += L'\\';
  return whole;
}

std::wstring final_path(HANDLE handle, DWORD flags) {
  return written_by([&](wchar_t* to, DWORD size) { return ::GetFinalPathNameByHandleW(handle, to, size, flags); });
}

}  // namespace

std::optional<std::wstring> native_path(int directory, std::string_view path) noexcept {
  try {
    return make_path(directory, path);
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return std::nullopt;
  }
}

bool wants_directory(std::string_view path) noexcept {
  return path.ends_with('/') || path.ends_with('\\');
}

std::wstring path_of(HANDLE handle) noexcept {
  try {
    std::wstring path = final_path(handle, FILE_NAME_NORMALIZED | VOLUME_NAME_DOS);
    // A volume may have no letter. Some file systems cannot give the normalized path.
    if (path.empty()) path = final_path(handle, FILE_NAME_NORMALIZED | VOLUME_NAME_GUID);
    if (path.empty()) path = final_path(handle, FILE_NAME_OPENED | VOLUME_NAME_DOS);
    return with_prefix(path);
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
  std::wstring plain(text);
  if (text.starts_with(kLongShare))
    plain = std::wstring(L"\\\\").append(text.substr(kLongShare.size()));
  else if (text.starts_with(kLong) && begins_with_drive(text.substr(kLong.size())))
    plain.erase(0, kLong.size());
  std::string utf8 = plain_utf8(plain);
  std::replace(utf8.begin(), utf8.end(), '\\', '/');
  return utf8;
}

}  // namespace windows

std::string generic_path(std::string_view path) {
  std::string generic(path);
  std::replace(generic.begin(), generic.end(), '\\', '/');
  return generic;
}

bool is_absolute(std::string_view path) noexcept {
  const auto is_separator = [&](std::size_t i) { return path[i] == '/' || path[i] == '\\'; };
  if (path.size() < 3) return false;
  return (is_separator(0) && is_separator(1)) || (path[1] == ':' && is_separator(2));
}

std::string without_end_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/') && path[path.size() - 2] != ':') path.pop_back();
  return path;
}

std::string absolute_path(const std::string& path) {
  const auto native = windows::native_path(kWorkingDirectory, path);
  return native ? windows::to_utf8(*native) : path;
}

}  // namespace safetensors::os
