"""Checks arguments that are paths, and replaces a leading `~` by the home directory.

`open` takes an int for a descriptor of the caller, and closes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from glob import escape
from typing import Any

from .._native import _path_text

__all__ = ["to_path", "to_paths"]

_ONE = "str, bytes or os.PathLike object"


def to_path(path: Any, argument: str, expected: str = _ONE) -> str:
    """Return a path as a str, with the home directory for a leading `~`, as a shell does.

    Raises TypeError, which names the argument, for another type, and ValueError for a null byte:
    the content of a file, given instead of its path, has some.
    """
    return os.path.expanduser(_path_text(path, argument, expected))


def _to_pattern(path: Any, argument: str, expected: str = _ONE) -> str:
    """Return a path as `to_path`, or a pattern. `*` and `[` of the home directory stay themselves."""
    text = _path_text(path, argument, expected)
    whole = os.path.expanduser(text)
    if whole == text or os.path.lexists(whole):  # a path that exists is not a pattern
        return whole
    home, slash, rest = text.partition("/")
    return escape(os.path.expanduser(home).rstrip("/")) + slash + rest


def to_paths(paths: Any, argument: str) -> str | list[str]:
    """Return a path or a pattern, or those of an iterable. Raises TypeError as `to_path` does."""
    one = (str, bytes, bytearray, memoryview, os.PathLike)
    if isinstance(paths, Iterable) and not isinstance(paths, one):
        return [_to_pattern(path, argument) for path in paths]
    return _to_pattern(paths, argument, "str, bytes, os.PathLike or an iterable of them")
