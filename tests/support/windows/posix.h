/* The functions of POSIX that the tests call, on Windows. CMake includes this header in front of each test, and the
   folder has the headers of POSIX that mingw-w64 lacks: they are empty.

   A function that Windows cannot imitate fails with ENOSYS, so its test fails. left_out.cmake lists these tests, with
   the reasons. Paths are UTF-8. */
#ifndef SAFETENSORS_TESTS_WINDOWS_POSIX_H
#define SAFETENSORS_TESTS_WINDOWS_POSIX_H

/* The standard headers come first: some of them have functions with these names. */
#ifdef __cplusplus
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#endif
#include <direct.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define O_CLOEXEC _O_NOINHERIT
#define O_NONBLOCK 0
#define SIGKILL 9
#define SIGPIPE 13
#define SIGUSR1 10
#define WIFEXITED(status) 1
#define WEXITSTATUS(status) (status)
#define WIFSIGNALED(status) 0
#define WTERMSIG(status) 0
#define S_ISLNK(mode) 0
#define _SC_PAGESIZE 1
/* For calls that fail here. */
#define O_DIRECT 0
#define O_DIRECTORY 0
#define O_NOFOLLOW 0
#define O_PATH 0
#define F_GETFL 3
#define F_GETFD 1
#define FD_CLOEXEC 1
#define LOCK_EX 2
#define LOCK_NB 4
#define LOCK_SH 1
#define LOCK_UN 8
#define MAP_ANONYMOUS 32
#define MAP_FAILED ((void*)-1)
#define MAP_PRIVATE 2
#define MAP_SHARED 1
#define POSIX_FADV_DONTNEED 4
#define PROT_NONE 0
#define PROT_READ 1
#define PROT_WRITE 2
#define RLIMIT_AS 9
#define RLIMIT_FSIZE 1
#define RLIMIT_NOFILE 7
#define RTLD_LOCAL 0
#define RTLD_NOLOAD 4
#define RTLD_NOW 2
#define SIGXFSZ 25
#define lstat stat
#define S_IFLNK 0xA000
#define S_IFSOCK 0xC000
#define UTIME_OMIT (-2)
#define UTIME_NOW (-1)
#define AT_FDCWD (-100)
#define AF_UNIX 1
#define MNT_DETACH 2
#define MS_ASYNC 1
#define MS_RDONLY 1
#define O_TMPFILE 0
#define SOCK_CLOEXEC 0
#define SOCK_STREAM 1
#define SA_RESTART 0
#ifndef EDQUOT
#define EDQUOT 122
#endif
/* That of the C library takes sizes below 2 GiB only. */
#define truncate(path, size) truncate64(path, size)

#ifdef __cplusplus
extern "C" {
#endif

typedef unsigned uid_t;
typedef unsigned gid_t;
typedef uint64_t rlim_t;
struct rlimit {
  rlim_t rlim_cur;
  rlim_t rlim_max;
};
struct sockaddr;
struct sockaddr_un {
  int sun_family;
  char sun_path[108];
};
struct statfs {
  long f_type;
};

int socket(int family, int type, int protocol);
int bind(int socket, const struct sockaddr* address, size_t size);
int mount(const char* source, const char* target, const char* type, unsigned long flags, const void* data);
int umount2(const char* target, int flags);
int link(const char* old_path, const char* new_path);
int fchdir(int descriptor);
/* Sets the time of the last write only. */
int utimensat(int directory, const char* path, const struct timespec times[2], int flags);
char* mkdtemp(char* name);
int symlink(const char* target, const char* path);
int mkfifo(const char* path, unsigned mode);
int pipe2(int ends[2], int flags);
pid_t fork(void);
pid_t waitpid(pid_t child, int* status, int options);
int kill(pid_t child, int number);
int pause(void);
unsigned alarm(unsigned seconds);
uid_t geteuid(void);
int setuid(uid_t user);
long sysconf(int name);
int getrlimit(int resource, struct rlimit* limit);
int setrlimit(int resource, const struct rlimit* limit);
void* mmap(void* address, size_t size, int protection, int flags, int descriptor, int64_t offset);
int mprotect(void* address, size_t size, int protection);
int msync(void* address, size_t size, int flags);
int munmap(void* address, size_t size);
int madvise(void* address, size_t size, int advice);
int mincore(void* address, size_t size, unsigned char* pages);
int posix_fadvise(int descriptor, int64_t offset, int64_t size, int advice);
int fdatasync(int descriptor);
int fcntl(int descriptor, int command, ...);
int flock(int descriptor, int operation);
int chown(const char* path, uid_t user, gid_t group);
void* dlopen(const char* name, int flags);
void* dlsym(void* library, const char* name);
const char* dlerror(void);
int dlclose(void* library);
ssize_t pread(int descriptor, void* bytes, size_t size, int64_t offset);
ssize_t pwrite(int descriptor, const void* bytes, size_t size, int64_t offset);

#ifdef __cplusplus
}
inline int statfs(const char*, struct statfs*) {
  errno = ENOSYS;
  return -1;
}
/* With the second argument that POSIX has. */
inline int mkdir(const char* path, unsigned) {
  return _mkdir(path);
}
#endif

#endif
