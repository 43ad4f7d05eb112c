// Implements posix.h with the functions of Windows and of its C library.
#include "support/windows/posix.h"

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>

#include <algorithm>
#include <string>

namespace {

std::wstring wide(const char* path) {
  const int size = ::MultiByteToWideChar(CP_UTF8, 0, path, -1, nullptr, 0);
  std::wstring text(static_cast<std::size_t>(std::max(size, 1)), L'\0');
  (void)::MultiByteToWideChar(CP_UTF8, 0, path, -1, text.data(), size);
  text.pop_back();
  std::replace(text.begin(), text.end(), L'/', L'\\');
  return text;
}

int fail(int number) {
  errno = number;
  return -1;
}

OVERLAPPED at(int64_t offset) {
  OVERLAPPED place{};
  place.Offset = static_cast<DWORD>(offset);
  place.OffsetHigh = static_cast<DWORD>(offset >> 32);
  return place;
}

// Files have bytes, not lines.
const bool binary = (_fmode = _O_BINARY, true);

}  // namespace

char* mkdtemp(char* name) {
  static unsigned count = 0;
  std::string text(name);
  if (!binary || text.size() < 6) return nullptr;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    unsigned number = static_cast<unsigned>(::_getpid()) * 1000003U + count++;
    for (std::size_t i = text.size() - 6; i < text.size(); ++i, number /= 36)
      text[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[number % 36];
    if (::CreateDirectoryW(wide(text.c_str()).c_str(), nullptr)) return std::copy(text.begin(), text.end(), name), name;
  }
  return nullptr;
}

int symlink(const char* target, const char* path) {
  const std::wstring to = wide(target);
  std::wstring absolute = to;
  const bool relative = to.find(L':') == std::wstring::npos && !to.starts_with(L"\\");
  if (relative) {
    const std::wstring from = wide(path);
    absolute = from.substr(0, from.find_last_of(L'\\') + 1) + to;
  }
  const DWORD attributes = ::GetFileAttributesW(absolute.c_str());
  const DWORD flags = attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0
                          ? DWORD{SYMBOLIC_LINK_FLAG_DIRECTORY}
                          : DWORD{0};
  constexpr DWORD kUnprivileged = 2;  // SYMBOLIC_LINK_FLAG_ALLOW_UNPRIVILEGED_CREATE
  if (!::CreateSymbolicLinkW(wide(path).c_str(), to.c_str(), flags | kUnprivileged)) return fail(EPERM);
  // Wine 8 makes nothing, and says that it did.
  return ::GetFileAttributesW(wide(path).c_str()) != INVALID_FILE_ATTRIBUTES ? 0 : fail(ENOSYS);
}

int link(const char* old_path, const char* new_path) {
  return ::CreateHardLinkW(wide(new_path).c_str(), wide(old_path).c_str(), nullptr) ? 0 : fail(EIO);
}

int utimensat(int, const char* path, const timespec times[2], int) {
  const HANDLE file = ::CreateFileW(wide(path).c_str(), FILE_WRITE_ATTRIBUTES, FILE_SHARE_READ | FILE_SHARE_WRITE,
                                    nullptr, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr);
  if (file == INVALID_HANDLE_VALUE) return fail(ENOENT);
  const auto ticks =
      static_cast<std::uint64_t>((times[1].tv_sec + 11'644'473'600) * 10'000'000 + times[1].tv_nsec / 100);
  const FILETIME time{static_cast<DWORD>(ticks), static_cast<DWORD>(ticks >> 32)};
  const bool done = ::SetFileTime(file, nullptr, nullptr, &time) != 0;
  (void)::CloseHandle(file);
  return done ? 0 : fail(EIO);
}

int socket(int, int, int) {
  return fail(ENOSYS);
}

int bind(int, const sockaddr*, size_t) {
  return fail(ENOSYS);
}

int mount(const char*, const char*, const char*, unsigned long, const void*) {
  return fail(ENOSYS);
}

int umount2(const char*, int) {
  return fail(ENOSYS);
}

int fchdir(int) {
  return fail(ENOSYS);
}

// The linker takes these three instead of those of the C library.
int open(const char* path, int flags, ...) {
  const bool writes = (flags & (_O_WRONLY | _O_RDWR)) != 0;
  const bool reads = (flags & _O_WRONLY) == 0;
  const DWORD access = (reads ? GENERIC_READ : 0U) | (writes ? GENERIC_WRITE : 0U);
  DWORD disposition = (flags & _O_TRUNC) != 0 ? DWORD{TRUNCATE_EXISTING} : DWORD{OPEN_EXISTING};
  if ((flags & _O_CREAT) != 0) disposition = (flags & _O_TRUNC) != 0 ? DWORD{CREATE_ALWAYS} : DWORD{OPEN_ALWAYS};
  if ((flags & _O_EXCL) != 0) disposition = CREATE_NEW;
  const HANDLE file = ::CreateFileW(wide(path).c_str(), access, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                                    nullptr, disposition, FILE_FLAG_BACKUP_SEMANTICS, nullptr);
  if (file == INVALID_HANDLE_VALUE) return fail(::GetLastError() == ERROR_FILE_EXISTS ? EEXIST : ENOENT);
  return ::_open_osfhandle(reinterpret_cast<std::intptr_t>(file), (flags & _O_APPEND) | _O_BINARY | _O_NOINHERIT);
}

int rename(const char* from, const char* to) {
  return ::MoveFileExW(wide(from).c_str(), wide(to).c_str(), MOVEFILE_REPLACE_EXISTING) ? 0 : fail(EBUSY);
}

int unlink(const char* path) {
  return ::DeleteFileW(wide(path).c_str()) ? 0 : fail(ENOENT);
}

int mkfifo(const char*, unsigned) {
  return fail(ENOSYS);
}

int pipe2(int ends[2], int) {
  return ::_pipe(ends, 65536, _O_BINARY | _O_NOINHERIT);
}

pid_t fork() {
  return fail(ENOSYS);
}

pid_t waitpid(pid_t, int* status, int) {
  *status = 127;
  return fail(ENOSYS);
}

int kill(pid_t, int) {
  return fail(ENOSYS);
}

int pause() {
  ::Sleep(INFINITE);
  return fail(EINTR);
}

unsigned alarm(unsigned) {
  return 0;
}

uid_t geteuid() {
  return 0;
}

int getrlimit(int, rlimit*) {
  return fail(ENOSYS);
}

int setrlimit(int, const rlimit*) {
  return fail(ENOSYS);
}

void* mmap(void*, size_t size, int, int flags, int, int64_t) {
  void* const pages =
      (flags & MAP_ANONYMOUS) != 0 ? ::VirtualAlloc(nullptr, size, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE) : nullptr;
  if (pages != nullptr) return pages;
  errno = ENOSYS;
  return MAP_FAILED;
}

int mprotect(void* address, size_t size, int protection) {
  DWORD old = 0;
  const DWORD wanted = protection == PROT_NONE ? PAGE_NOACCESS : PAGE_READWRITE;
  return ::VirtualProtect(address, size, wanted, &old) != 0 ? 0 : fail(EINVAL);
}

int msync(void*, size_t, int) {
  return fail(ENOSYS);
}

int munmap(void*, size_t) {
  return fail(ENOSYS);
}

int madvise(void*, size_t, int) {
  return fail(ENOSYS);
}

int mincore(void*, size_t, unsigned char*) {
  return fail(ENOSYS);
}

int posix_fadvise(int, int64_t, int64_t, int) {
  return ENOSYS;
}

int fdatasync(int descriptor) {
  return ::_commit(descriptor);
}

int fcntl(int, int, ...) {
  return fail(ENOSYS);
}

int flock(int, int) {
  return fail(ENOSYS);
}

int chown(const char*, uid_t, gid_t) {
  return fail(ENOSYS);
}

void* dlopen(const char* name, int) {
  return ::LoadLibraryW(wide(name).c_str());
}

void* dlsym(void* library, const char* name) {
  return reinterpret_cast<void*>(::GetProcAddress(static_cast<HMODULE>(library), name));
}

const char* dlerror() {
  return "LoadLibrary() or GetProcAddress() failed";
}

int dlclose(void* library) {
  return ::FreeLibrary(static_cast<HMODULE>(library)) ? 0 : fail(EINVAL);
}

int setuid(uid_t) {
  return fail(ENOSYS);
}

long sysconf(int) {
  SYSTEM_INFO info;
  ::GetSystemInfo(&info);
  return static_cast<long>(info.dwPageSize);
}

ssize_t pread(int descriptor, void* bytes, size_t size, int64_t offset) {
  OVERLAPPED place = at(offset);
  DWORD count = 0;
  const auto handle = reinterpret_cast<HANDLE>(::_get_osfhandle(descriptor));
  if (::ReadFile(handle, bytes, static_cast<DWORD>(size), &count, &place)) return static_cast<ssize_t>(count);
  return ::GetLastError() == ERROR_HANDLE_EOF ? 0 : fail(EIO);
}

ssize_t pwrite(int descriptor, const void* bytes, size_t size, int64_t offset) {
  OVERLAPPED place = at(offset);
  DWORD count = 0;
  const auto handle = reinterpret_cast<HANDLE>(::_get_osfhandle(descriptor));
  return ::WriteFile(handle, bytes, static_cast<DWORD>(size), &count, &place) ? static_cast<ssize_t>(count) : fail(EIO);
}
