// Classifies file systems by the magic number of statfs(). Most numbers are written out, because <linux/magic.h> does
// not name all of them. An unknown number means local.
#include "os/file_system.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include "os/system_error.h"

namespace safetensors::os {

FileSystem classify_file_system(std::uint64_t magic) noexcept {
  switch (magic) {
    case 0x6969:      // NFS
    case 0x517B:      // SMB
    case 0xFE534D42:  // SMB2
    case 0xFF534D42:  // CIFS
    case 0x65735546:  // FUSE, virtiofs
    case 0x01021997:  // 9p
    case 0x00C36400:  // Ceph
    case 0x0BD00BD0:  // Lustre
    case 0x47504653:  // GPFS
    case 0x19830326:  // BeeGFS
    case 0x20030528:  // OrangeFS
    case 0x5346414F:  // AFS
    case 0x6B414653:  // AFS in the kernel
    case 0x73757245:  // Coda
      return FileSystem::remote;
    case 0x9FA0:      // proc
    case 0x62656572:  // sysfs
    case 0x64626720:  // debugfs
    case 0x74726163:  // tracefs
    case 0x0027E0EB:  // cgroup
    case 0x63677270:  // cgroup2
    case 0x73636673:  // securityfs
    case 0xF97CFF8C:  // selinuxfs
    case 0x62656570:  // configfs
    case 0x6165676C:  // pstore
    case 0xCAFE4A11:  // bpf
    case 0xDE5E81E4:  // efivarfs
    case 0x42494E4D:  // binfmt_misc
      return FileSystem::kernel;
    default:
      return FileSystem::local;
  }
}

FileSystem file_system_of(int descriptor) noexcept {
  struct statfs status;
  if (retry([&] { return ::fstatfs(descriptor, &status); }) != 0) return FileSystem::local;
  // f_type is a signed long on most systems, and the magic numbers have 32 bits.
  return classify_file_system(static_cast<std::uint32_t>(status.f_type));
}

bool on_local_device(int descriptor) noexcept {
  struct statfs status;
  if (::fstatfs(descriptor, &status) != 0) return false;
  const auto magic = static_cast<std::uint32_t>(status.f_type);
  return magic != TMPFS_MAGIC && magic != RAMFS_MAGIC && classify_file_system(magic) == FileSystem::local;
}

std::string name_key(std::string_view name) {
  return std::string(name);
}

}  // namespace safetensors::os
