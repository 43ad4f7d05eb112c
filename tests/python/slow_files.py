"""A file system in user space (FUSE). It fails on request, and counts the bytes that programs read.

`mounted(source, mountpoint)` starts this file as a program. It serves the files of the folder `source`, read-only, and takes one
command per line on stdin. Each answer is one line of JSON. As on a network file system, requests of several threads overlap, and
the kernel splits reads into requests as it likes. The kernel's cache of a file is dropped when the file is opened again, which is
the default of libfuse.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Mounted", "folders", "mounted", "operations", "started"]

THREADS = 64  # of the server: more than any program here has requests in flight


def why_not() -> str | None:
    """Returns the reason why this machine cannot mount, or None if it can."""
    if importlib.util.find_spec("mfusepy") is None:
        return "mfusepy is not installed"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse cannot be opened: {error.strerror}"
    if shutil.which("fusermount3") is None:
        return "fusermount3 is not installed"
    try:
        importlib.import_module("mfusepy")
    except OSError as error:
        return f"libfuse is not installed: {error}"
    return None


def folders(parent: Path, *names: str) -> list[Path]:
    """Makes folders to serve and to mount at. Skips the test where nothing can be mounted."""
    if reason := why_not():
        pytest.skip(f"no FUSE file system can be mounted: {reason}")
    made = [parent / name for name in names]
    for path in made:
        path.mkdir(exist_ok=True)
    return made


class Mounted:
    """A mounted file system. `path`: its folder. `source`: the folder whose files it serves."""

    def __init__(self, server: subprocess.Popen[str], source: Path, path: Path) -> None:
        self._server, self.source, self.path = server, source, path

    def _ask(self, **command: Any) -> Any:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps(command) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())

    def fail_from(self, offset: int) -> None:
        """From now on, reads that go beyond the offset fail with EIO."""
        self._ask(fail_from=offset)

    def counts(self) -> dict[str, int]:
        """Returns the requests to read since the last call, "read", and their bytes, "bytes"."""
        return dict(self._ask(read=0, bytes=0))


@contextlib.contextmanager
def started(program: str, folder: Path, path: Path, word: str) -> Iterator[subprocess.Popen[str]]:
    """Starts a program that serves the files of `folder` at the folder `path`, which exists. Raises OSError if the system refuses."""
    command = [sys.executable, program, str(folder), str(path), word]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while not os.path.ismount(path):
            if server.poll() is not None:
                raise OSError(f"cannot mount: {server.communicate()[1].strip()}")
            time.sleep(0.01)
        yield server
    finally:
        # Both end the file system even if a process still has a file of it open.
        subprocess.run(["fusermount3", "-u", "-z", str(path)], check=False)
        server.kill()
        server.communicate()


@contextlib.contextmanager
def mounted(source: Path, path: Path, *, cached: bool = True) -> Iterator[Mounted]:
    """Mounts the files of `source` at the folder `path`, which exists. Raises OSError if the system refuses.

    `cached`: whether the kernel's page cache is used. Without it (direct_io) every read becomes a request.
    """
    with started(__file__, source, path, "cached" if cached else "direct_io") as server:
        yield Mounted(server, source, path)


def operations(fuse: Any, folder: str) -> Any:
    """The class of a file system with the files of a folder."""

    class Operations(fuse.Operations):  # type: ignore[misc]
        use_ns = True

        def getattr(self, path: str, fh: Any = None) -> dict[str, Any]:
            try:
                found = os.lstat(folder + path)
            except OSError as error:
                raise fuse.FuseOSError(error.errno) from None
            names = ("st_mode", "st_size", "st_uid", "st_gid", "st_nlink", "st_ino")
            times = {f"st_{t}time": getattr(found, f"st_{t}time_ns") for t in "amc"}
            return {name: getattr(found, name) for name in names} | times

        def readdir(self, path: str, fh: Any) -> list[str]:
            return [".", "..", *os.listdir(folder + path)]

        def open(self, path: str, flags: int) -> int:
            return os.open(folder + path, os.O_RDONLY)

        def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
            return os.pread(fh, size, offset)

        def release(self, path: str, fh: int) -> int:
            os.close(fh)
            return 0

    return Operations


def serve(source: str, path: str, mode: str) -> None:
    """Runs the file system until somebody unmounts it."""
    fuse: Any = importlib.import_module("mfusepy")
    lock = threading.Lock()
    state = {"fail_from": sys.maxsize, "read": 0, "bytes": 0}

    class Files(operations(fuse, source)):  # type: ignore[misc]
        def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
            data: bytes = super().read(path, size, offset, fh)
            with lock:
                state["read"] += 1
                state["bytes"] += len(data)
            if state["fail_from"] < offset + size:
                raise fuse.FuseOSError(errno.EIO)
            return data

    def obey() -> None:
        for line in sys.stdin:
            with lock:
                print(json.dumps(state), flush=True)
                state.update(json.loads(line))

    threading.Thread(target=obey, daemon=True).start()
    fuse.FUSE(Files(), path, foreground=True, ro=True, max_threads=THREADS, direct_io=mode == "direct_io", fsname="slow_files")


if __name__ == "__main__":
    serve(*sys.argv[1:])
