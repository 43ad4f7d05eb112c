"""A file system in user space (FUSE) that is as narrow as a mount of an object store.

`mounted(folder, mountpoint, truncates=...)` starts this file as a program. It serves the files of `folder`. It cannot rename, link or
change modes. A file is written once, from its first byte to its last byte, and nobody reads it before it is closed. `truncates`: whether an
existing file may be opened with O_TRUNC.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slow_files import why_not

__all__ = ["mounted", "why_not"]


@contextlib.contextmanager
def mounted(folder: Path, path: Path, *, truncates: bool) -> Iterator[None]:
    """Mounts the files of `folder` at the folder `path`, which exists. Raises OSError if the system refuses."""
    command = [sys.executable, __file__, str(folder), str(path), "truncates" if truncates else ""]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        while not os.path.ismount(path):
            if server.poll() is not None:
                raise OSError(f"cannot mount: {server.communicate()[1].strip()}")
            time.sleep(0.01)
        yield
    finally:
        subprocess.run(["fusermount3", "-u", "-z", str(path)], check=False)
        server.kill()
        server.communicate()


def serve(folder: str, path: str, truncates: str) -> None:
    """Runs the file system until somebody unmounts it."""
    fuse: Any = importlib.import_module("mfusepy")
    lock = threading.Lock()
    writing: dict[str, int] = {}  # the number of bytes of each file that is open for writing

    def refuse(number: int) -> Any:
        raise fuse.FuseOSError(number)

    class Files(fuse.Operations):  # type: ignore[misc]
        use_ns = True

        def getattr(self, path: str, fh: Any = None) -> dict[str, Any]:
            try:
                found = os.lstat(folder + path)
            except OSError as error:
                refuse(error.errno or errno.EIO)
            names = ("st_mode", "st_size", "st_uid", "st_gid", "st_nlink", "st_ino")
            times = {f"st_{t}time": getattr(found, f"st_{t}time_ns") for t in "amc"}
            return {name: getattr(found, name) for name in names} | times

        def readdir(self, path: str, fh: Any) -> list[str]:
            return [".", "..", *os.listdir(folder + path)]

        def create(self, path: str, mode: int, fi: Any = None) -> int:
            with lock:
                writing[path] = 0
            return os.open(folder + path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)

        def open(self, path: str, flags: int) -> int:
            if flags & os.O_ACCMODE == os.O_RDONLY:
                return refuse(errno.EPERM) if path in writing else os.open(folder + path, os.O_RDONLY)
            # The kernel truncates by a request of its own, before this one.
            if os.lstat(folder + path).st_size != 0:
                refuse(errno.EPERM)
            with lock:
                writing[path] = 0
            return os.open(folder + path, os.O_WRONLY)

        def truncate(self, path: str, length: int, fh: Any = None) -> None:
            if not truncates or length != 0 or path in writing:
                refuse(errno.EPERM)
            os.truncate(folder + path, 0)

        def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
            return os.pread(fh, size, offset)

        def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
            with lock:
                if offset != writing.get(path):
                    refuse(errno.EINVAL)  # out of order, or after a close()
                writing[path] += len(data)
            return os.pwrite(fh, data, offset)

        def fsync(self, path: str, datasync: int, fh: int) -> int:
            return 0

        # close() waits for this request. It does not wait for release().
        def flush(self, path: str, fh: int) -> int:
            with lock:
                writing.pop(path, None)
            return 0

        def release(self, path: str, fh: int) -> int:
            os.close(fh)
            return 0

        def unlink(self, path: str) -> None:
            os.unlink(folder + path)

        def mkdir(self, path: str, mode: int) -> None:
            os.mkdir(folder + path)

        def rmdir(self, path: str) -> None:
            os.rmdir(folder + path)

        def rename(self, old: str, new: str, flags: int = 0) -> None:
            refuse(errno.ENOSYS)

        def link(self, target: str, source: str) -> None:
            refuse(errno.ENOSYS)

        def chmod(self, path: str, mode: int) -> None:
            refuse(errno.ENOSYS)

        def chown(self, path: str, uid: int, gid: int) -> None:
            refuse(errno.ENOSYS)

    # hard_remove: libfuse would rename a removed file that is still open.
    fuse.FUSE(Files(), path, foreground=True, fsname="object_store", hard_remove=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
