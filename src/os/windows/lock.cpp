// Locks of files and of folders.
//
// Windows locks ranges of files, and refuses to lock folders. So the lock of a folder is an object of the system with a
// name, made from the numbers of the volume and of the folder. The object exists as long as a handle to it is open. So
// the process that makes it has the lock, and the system releases it however the process ends. A table says which
// descriptor holds which object.
#include <atomic>
#include <cerrno>
#include <cstdio>

#include "os/system.h"
#include "os/windows/native.h"

namespace safetensors::os {
namespace {

// A lock of Windows keeps other programs from reading the range. So it covers a byte that no file has.
constexpr std::uint64_t kLockedByte = 0x7FFF'FFFF'FFFF'FFFE;

// The object that each descriptor of a folder holds, or null.
constinit std::atomic<HANDLE> folder_locks[windows::kMaxDescriptors] = {};

// Makes the object of a folder, for all sessions and users of the machine. Everybody may see that it exists, and nobody
// needs another right to it.
int lock_folder(int descriptor, HANDLE folder) noexcept {
  if (folder_locks[descriptor] != nullptr) return 0;
  BY_HANDLE_FILE_INFORMATION found;
  if (!::GetFileInformationByHandle(folder, &found)) return windows::fail();
  char name[64];
  (void)std::snprintf(name, sizeof name, "Global\\safetensors-%08lx-%08lx%08lx", found.dwVolumeSerialNumber,
                      found.nFileIndexHigh, found.nFileIndexLow);
  SECURITY_DESCRIPTOR everyone;
  if (!::InitializeSecurityDescriptor(&everyone, SECURITY_DESCRIPTOR_REVISION) ||
      !::SetSecurityDescriptorDacl(&everyone, TRUE, nullptr, FALSE))
    return windows::fail();
  SECURITY_ATTRIBUTES attributes{sizeof attributes, &everyone, FALSE};
  windows::Handle object(::CreateEventExA(&attributes, name, CREATE_EVENT_MANUAL_RESET, SYNCHRONIZE));
  if (!object.valid()) return windows::fail();
  if (::GetLastError() == ERROR_ALREADY_EXISTS) return windows::fail(ERROR_LOCK_VIOLATION);  // it has a holder
  folder_locks[descriptor] = object.release();
  return 0;
}

}  // namespace

bool windows::forget_lock(int descriptor) noexcept {
  if (descriptor < 0 || descriptor >= kMaxDescriptors) return false;
  const Handle object(folder_locks[descriptor].exchange(nullptr));
  return object.valid();
}

int lock(int descriptor) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (windows::is_directory(handle)) return lock_folder(descriptor, handle);
  DWORD none = 0;
  const DWORD error = windows::call_at(handle, kLockedByte, none, [&](OVERLAPPED* at) {
    return ::LockFileEx(handle, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at);
  });
  return error == NO_ERROR ? 0 : windows::fail(error);
}

int unlock(int descriptor) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  if (windows::forget_lock(descriptor) || windows::is_directory(handle)) return 0;
  DWORD none = 0;
  const DWORD error =
      windows::call_at(handle, kLockedByte, none, [&](OVERLAPPED* at) { return ::UnlockFileEx(handle, 0, 1, 0, at); });
  return error == NO_ERROR || error == ERROR_NOT_LOCKED ? 0 : windows::fail(error);
}

}  // namespace safetensors::os
