// Asks whether a file lies on another machine.
#include "os/file_system.h"

#include "os/windows/native.h"

namespace safetensors::os {

FileSystem file_system_of(int descriptor) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  FILE_REMOTE_PROTOCOL_INFO remote;
  if (handle == INVALID_HANDLE_VALUE) return FileSystem::local;
  // The call fails for a file of this machine, and for a driver that does not know it. Then the path decides.
  if (::GetFileInformationByHandleEx(handle, FileRemoteProtocolInfo, &remote, sizeof remote)) return FileSystem::remote;
  return windows::path_of(handle).starts_with(L"\\\\?\\UNC\\") ? FileSystem::remote : FileSystem::local;
}

bool on_local_device(int descriptor) noexcept {
  return windows::handle_of(descriptor) != INVALID_HANDLE_VALUE && file_system_of(descriptor) == FileSystem::local;
}

}  // namespace safetensors::os
