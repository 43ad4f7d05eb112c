"""Makes the memory of this machine look as after hours of work, so that figures hold on the second day."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .files import MIB, human

HOLE = 32 * 1024  # bytes that stay cached, and bytes that become free, in turns
LEFT = 1024 * MIB  # of the available memory, for the programs that run meanwhile


def available() -> int:
    """Return the bytes of memory that the system can still give."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 1 << 62


def _touch(size: int) -> None:
    # Once, and gives it back: afterwards, a host has this memory no longer.
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for at in range(0, size, mmap.PAGESIZE):
            memory[at] = 1


@contextmanager
def used(directory: str | None) -> Iterator[str]:
    """Use the machine's memory, and tell what was done. The file that holds half of the memory goes at the end.

    A sparse file fills the page cache through small reads, so its pages are small. Then every second piece of 32 KiB is
    dropped. The free memory is in pieces of that size: a huge page is there only after the system has dropped or moved
    pages. The rest of the file can be dropped at any time, as in every machine whose cache is full.
    """
    size = max(0, available() - LEFT) // (2 * HOLE) * 2 * HOLE
    with tempfile.TemporaryFile(dir=directory) as file:
        os.ftruncate(file.fileno(), size)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        for at in range(0, size, HOLE):
            os.pread(file.fileno(), HOLE, at)
        for at in range(0, size, 2 * HOLE):
            os.posix_fadvise(file.fileno(), at, HOLE, os.POSIX_FADV_DONTNEED)
        _touch(size // 4)
        yield f"page cache filled with {human(size)}, every second {HOLE // 1024} KiB of it dropped, {human(size // 4)} touched and freed"
