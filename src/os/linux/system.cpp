// The calls of Linux about files and processors. change.cpp has those that change files. Each does little more than one
// system call: tests answer system calls in place of the kernel, so all decisions are in the callers.
//
// File systems are classified by the magic number of statfs(). Most numbers are written out, because <linux/magic.h>
// does not name all of them. An unknown number means local.
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cstdint>
#include <cstdio>
#include <limits>

#include "os/file_status.h"
#include "os/open.h"
#include "os/process.h"
#include "os/system.h"
#include "os/system_error.h"

namespace safetensors::os {

int open_at(int directory, const char* name, OpenFlags flags, std::uint32_t permissions) noexcept {
  int native = native_flags(flags);
  if (has(flags, OpenFlags::unnamed)) native |= O_TMPFILE;
  if (has(flags, OpenFlags::path_only)) native |= O_PATH;
  if (has(flags, OpenFlags::direct)) native |= O_DIRECT;
  return ::openat(directory, name, native, static_cast<mode_t>(permissions));
}

DescriptorPath::DescriptorPath(int descriptor) noexcept {
  (void)std::snprintf(text, sizeof text, "/proc/self/fd/%d", descriptor);
}

int direct_alignment(int descriptor, DirectAlignment& alignment) noexcept {
  alignment = {};
  struct statfs fs;
  if (::fstatfs(descriptor, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || static_cast<unsigned>(fs.f_type) == RAMFS_MAGIC))
    return alignment.known = true, 0;  // files in memory: newer systems accept O_DIRECT, which gains nothing
#ifdef STATX_DIOALIGN
  struct statx status;
  if (::statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) != 0) return -1;
  if ((status.stx_mask & STATX_DIOALIGN) != 0)
    alignment = {.known = true, .memory = status.stx_dio_mem_align, .offset = status.stx_dio_offset_align};
#endif
  return 0;
}

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

unsigned allowed_processors() noexcept {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  // The call fails on machines with more processors than the set can hold (1024). They have enough processors.
  if (::sched_getaffinity(0, sizeof processors, &processors) != 0) return std::numeric_limits<unsigned>::max();
  return static_cast<unsigned>(CPU_COUNT(&processors));
}

}  // namespace safetensors::os
