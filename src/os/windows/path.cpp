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
  if (path.starts_with(kLong)) return std::wstring(path);
  if (path.starts_with(L"\\\\")) return std::wstring(kLongShare).append(path.substr(2));
  return std::wstring(kLong).append(path);
}

// Returns what Windows makes of `.`, `\` or `C:.`: the working directory, its root, or that of a drive. Empty, with
// errno, after a failure.
std::wstring full_path(const wchar_t* path) {
  std::wstring whole(::GetFullPathNameW(path, 0, nullptr, nullptr), L'\0');
  const DWORD size = ::GetFullPathNameW(path, static_cast<DWORD>(whole.size()), whole.data(), nullptr);
  if (size == 0 || size >= whole.size()) {
    fail();
    return {};
  }
  whole.resize(size);
  return with_prefix(whole);
}

// Returns the length of the part that `..` does not leave: `\\?\C:` or `\\?\UNC\server\share`.
std::size_t root_size(std::wstring_view whole) noexcept {
  const bool share = whole.starts_with(kLongShare);
  std::size_t end = std::min(whole.find(L'\\', share ? kLongShare.size() : kLong.size()), whole.size());
  if (share && end < whole.size()) end = std::min(whole.find(L'\\', end + 1), whole.size());
  return end;
}

// Returns the absolute path, with the prefix, that the rest of a path is relative to. Removes from `path` what the
// result stands for. Empty, with errno, after a failure.
std::wstring take_base(int directory, std::wstring_view& path) {
  if (path.starts_with(kDevice)) {
    errno = EINVAL;
    return {};
  }
  if (path.starts_with(L"\\\\")) {  // with the prefix, or a share: `\\server\share`
    const std::wstring_view start = path.starts_with(kLongShare) ? kLongShare
                                    : path.starts_with(kLong)    ? kLong
                                                                 : L"\\\\";
    std::wstring base(start == L"\\\\" ? kLongShare : start);
    path.remove_prefix(start.size());
    base += take_name(path);
    if (start != kLong) base.append(L"\\").append(take_name(path));
    return base;
  }
  if (begins_with_drive(path)) {
    const wchar_t drive[] = {path[0], L':', L'.', L'\0'};
    const bool absolute = path.size() > 2 && path[2] == L'\\';
    path.remove_prefix(2);
    return absolute ? std::wstring(kLong).append(drive, 2) : full_path(drive);
  }
  const bool rooted = path.starts_with(L'\\');  // at the root of the volume that the path starts from
  if (directory == kWorkingDirectory) return full_path(rooted ? L"\\" : L".");
  const HANDLE handle = handle_of(directory);
  std::wstring base = handle == INVALID_HANDLE_VALUE ? std::wstring() : path_of(handle);
  if (rooted) base.resize(root_size(base));
  return base;
}

// Returns 0, or the reason why no file of ours may have this name. A colon leads to another stream of a file.
int check_name(std::wstring_view name) noexcept {
  if (is_reserved(name) || name.find(L':') != std::wstring_view::npos) return EINVAL;
  return name.size() > kMaxName ? ENAMETOOLONG : 0;
}

std::optional<std::wstring> make_path(int directory, std::string_view text) {
  if (text.empty()) {
    errno = ENOENT;
    return std::nullopt;
  }
  std::optional<std::wstring> wide = to_wide(text);
  if (!wide) return std::nullopt;
  std::replace(wide->begin(), wide->end(), L'/', L'\\');
  std::wstring_view rest = *wide;
  std::wstring whole = take_base(directory, rest);
  if (whole.empty()) return std::nullopt;
  while (whole.ends_with(L'\\')) whole.pop_back();
  const std::size_t root = root_size(whole);
  while (!rest.empty()) {
    const std::wstring_view name = take_name(rest);
    if (name == L"..") {
      whole.resize(std::max(whole.rfind(L'\\'), root));
    } else if (!name.empty() && name != L".") {
      if (const int error_number = check_name(name); error_number != 0) {
        errno = error_number;
        return std::nullopt;
      }
      whole.append(L"\\").append(name);
    }
  }
  if (whole.size() == root) whole += L'\\';
  return whole;
}

DWORD final_path(HANDLE handle, std::wstring& path, DWORD flags) {
  path.resize(::GetFinalPathNameByHandleW(handle, nullptr, 0, flags));
  if (path.empty()) return ::GetLastError();
  const DWORD size = ::GetFinalPathNameByHandleW(handle, path.data(), static_cast<DWORD>(path.size()), flags);
  if (size == 0) return ::GetLastError();
  if (size > path.size()) return ERROR_PATH_NOT_FOUND;  // another program has renamed a folder of the path meanwhile
  path.resize(size);
  return NO_ERROR;
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
    std::wstring path;
    DWORD error = final_path(handle, path, FILE_NAME_NORMALIZED | VOLUME_NAME_DOS);
    // A volume may have no letter. Some file systems cannot give the normalized path.
    if (error != NO_ERROR) error = final_path(handle, path, FILE_NAME_NORMALIZED | VOLUME_NAME_GUID);
    if (error != NO_ERROR) error = final_path(handle, path, FILE_NAME_OPENED | VOLUME_NAME_DOS);
    if (error == NO_ERROR) return with_prefix(path);
    fail(error);
    return {};
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

std::string name_key(std::string_view name) {
  std::string key(name);
  for (char& c : key) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return key;
}

std::string absolute_path(const std::string& path) {
  const auto native = windows::native_path(kWorkingDirectory, path);
  return native ? windows::to_utf8(*native) : path;
}

}  // namespace safetensors::os
