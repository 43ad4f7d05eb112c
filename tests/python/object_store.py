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
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slow_files import operations, started


@contextlib.contextmanager
def mounted(folder: Path, path: Path, *, truncates: bool) -> Iterator[None]:
    """Mounts the files of `folder` at the folder `path`, which exists. Raises OSError if the system refuses."""
    with started(__file__, folder, path, "truncates" if truncates else ""):
        yield


def refuse(number: int) -> Any:
    """Answers a request with this error."""
    raise importlib.import_module("mfusepy").FuseOSError(number)


def serve(folder: str, path: str, truncates: str) -> None:
    """Runs the file system until somebody unmounts it."""
    fuse: Any = importlib.import_module("mfusepy")
    lock = threading.Lock()
    writing: dict[str, int] = {}  # the number of bytes of each file that is open for writing

    class Files(operations(fuse, folder)):  # type: ignore[misc]
        def create(self, path: str, mode: int, fi: Any = None) -> int:
            with lock:
                writing[path] = 0
            return os.open(folder + path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)

        def open(self, path: str, flags: int) -> int:
            if flags & os.O_ACCMODE == os.O_RDONLY:
                return refuse(errno.EPERM) if path in writing else super().open(path, flags)
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

        def unlink(self, path: str) -> None:
            os.unlink(folder + path)

        def mkdir(self, path: str, mode: int) -> None:
            os.mkdir(folder + path)

        def rmdir(self, path: str) -> None:
            os.rmdir(folder + path)

        def lacks(self, *arguments: Any) -> None:
            refuse(errno.ENOSYS)

        rename = link = chmod = chown = lacks

    # hard_remove: libfuse would rename a removed file that is still open.
    fuse.FUSE(Files(), path, foreground=True, fsname="object_store", hard_remove=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
