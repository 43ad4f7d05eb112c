// Asks whether a file lies on another machine.
#include "os/file_system.h"

#include "os/windows/native.h"

namespace safetensors::os {

FileSystem file_system_of(int descriptor) noexcept {
  const HANDLE handle = windows::handle_of(descriptor);
  FILE_REMOTE_PROTOCOL_INFO remote;
  // The call fails for a file of this machine.
  if (handle != INVALID_HANDLE_VALUE &&
      ::GetFileInformationByHandleEx(handle, FileRemoteProtocolInfo, &remote, sizeof remote))
    return FileSystem::remote;
  return FileSystem::local;
}

bool on_local_device(int descriptor) noexcept {
  return file_system_of(descriptor) == FileSystem::local;
}

}  // namespace safetensors::os
