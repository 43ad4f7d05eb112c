"""Measures memory, maps and the page cache of this process on Linux. Needs only the standard library."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

MIB = 1 << 20


def status(field: str) -> int:
    """Return a field of /proc/self/status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def reset_peak() -> None:
    """Let VmHWM start again at the present resident size."""
    Path("/proc/self/clear_refs").write_text("5")


class PeakWatch:
    """Samples RssAnon of this process from another process. `with PeakWatch() as watch: ...`, then watch.peak."""

    SCRIPT = """
import sys, time
most, path = 0, "/proc/" + sys.argv[1] + "/status"
import select
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0.0003)[0]:
    for line in open(path):
        if line.startswith("RssAnon"):
            most = max(most, int(line.split()[1]) * 1024)
print(most, flush=True)
"""

    def __enter__(self) -> PeakWatch:
        command = [sys.executable, "-I", "-S", "-c", self.SCRIPT, str(os.getpid())]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout and self.process.stdout.readline() == "ready\n"
        self.before = status("RssAnon")
        self.peak = 0
        return self

    def __exit__(self, *error: object) -> None:
        now = status("RssAnon")
        said, _ = self.process.communicate("end\n")
        self.peak = max(int(said), now) - self.before


def files_under(path: str) -> list[str]:
    """Return the path if it is a file, or all files in this folder."""
    if not os.path.isdir(path):
        return [path]
    found = [os.path.join(top, name) for top, _, names in os.walk(path) for name in names]
    return sorted(found)


def size_of(path: str) -> int:
    return sum(os.path.getsize(each) for each in files_under(path))


def evict(path: str) -> None:
    """Drop the pages of all files under the path from the page cache. Raise OSError if they stay."""
    for each in files_under(path):
        with open(each, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    left = resident(files_under(path))
    if left > MIB:
        raise OSError(f"cannot drop {path} from the page cache: {left} bytes stay")


def resident(paths: Iterable[str]) -> int:
    """Return how many bytes of these files are in the page cache.

    mincore() sees pages that read() or a map brought in, by this process or another one, and those that the system read
    ahead.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    number = ctypes.c_int
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, number, number, number, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    total = 0
    for path in paths:
        size = os.path.getsize(path)
        if size == 0:
            continue
        pages = ctypes.create_string_buffer((size + mmap.PAGESIZE - 1) // mmap.PAGESIZE)
        with open(path, "rb") as file:
            address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
        if address == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), f"mmap of {path}")
        failed = libc.mincore(address, size, pages)
        libc.munmap(address, size)
        if failed:
            raise OSError(ctypes.get_errno(), f"mincore of {path}")
        total += sum(page & 1 for page in pages.raw) * mmap.PAGESIZE
    return total


def bytes_read() -> int:
    """Return the bytes that read calls of this process asked for and got. Pages of maps are not counted."""
    return int(Path("/proc/self/io").read_text().split()[1])


def map_at(address: int) -> str:
    """Return the path of the file that is mapped at this address, or an empty string."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        begin, end = (int(each, 16) for each in fields[0].split("-"))
        if begin <= address < end:
            return fields[5] if len(fields) == 6 and fields[5].startswith("/") else ""
    return ""
