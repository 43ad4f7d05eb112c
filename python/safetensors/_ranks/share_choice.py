"""Decides whether ranks pass bytes on to each other: by the argument `share`, or by the file system.

On a local file system, each rank reads from the page cache of its machine faster than another process can
send the bytes. A network or a user-space file system answers each request of each rank, so there one
rank reads for all.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Literal, get_args

__all__ = ["Choice", "Share", "check_share", "choose", "file_system_of"]

Share = Literal["auto", "never", "node", "group"]

# The types of /proc/self/mountinfo that stand for the file systems of src/os/linux/file_system.cpp.
_REMOTE = frozenset(
    "nfs nfs4 smb2 smb3 cifs smbfs 9p virtiofs ceph lustre gpfs beegfs orangefs pvfs2 afs kafs coda".split()
)
_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Choice:
    """Which ranks share reads: "never", "node" or "group". `reason` is one sentence for people."""

    share: str
    reason: str


def check_share(share: object) -> None:
    """Raise ValueError for a word that `share` does not take."""
    if share not in get_args(Share):
        words = ", ".join(f'"{word}"' for word in get_args(Share))
        raise ValueError(f"share {share!r} is invalid (expected one of: {words})")


def choose(share: Share, file: str | None, ranks: int) -> Choice:
    """Return the choice for a checkpoint. `file`: one of its files, None if it has none."""
    if ranks == 1:
        return Choice("never", "there is one rank")
    if share != "auto":
        return Choice(share, f'the argument is "{share}"')
    kind = None if file is None else file_system_of(file)
    if kind is None:
        return Choice("never", "the file system is unknown")
    if kind in _REMOTE:
        return Choice("group", f"{kind} is a network file system")
    if kind == "fuse" or kind.startswith("fuse."):
        return Choice("group", f"{kind} is a user-space file system")
    return Choice("never", f"{kind} is a local file system")


def file_system_of(path: str, mounts: str = "/proc/self/mountinfo") -> str | None:
    """Return the type of the file system of a path, such as "ext4" or "fuse.sshfs". None: unknown."""
    try:
        real = os.path.realpath(path)
        with open(mounts, encoding="utf-8", errors="surrogateescape") as lines:
            return _longest(real, lines.read().splitlines())
    except OSError:
        return None


def _longest(real: str, lines: list[str]) -> str | None:
    """Return the type of the last mount whose folder is the longest start of the path."""
    length, kind = -1, None
    for line in lines:
        fields, separator, source = line.partition(" - ")
        parts = fields.split(" ")
        if not separator or len(parts) < 5:
            continue
        folder = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), parts[4])
        start = folder if folder.endswith("/") else folder + "/"
        if len(folder) >= length and (real + "/").startswith(start):
            length, kind = len(folder), source.split(" ")[0]
    return kind
