"""Checks arguments that are paths. `open` takes an int for a descriptor of the caller, and closes it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

__all__ = ["to_path", "to_paths"]


def to_path(path: Any, argument: str, expected: str = "str, bytes or os.PathLike object") -> str:
    """Return a path as a str. Raises TypeError, which names the argument, for another type."""
    try:
        return os.fsdecode(path)
    except TypeError:
        found = type(path).__name__
        raise TypeError(f"argument {argument!r}: expected {expected}, not {found}") from None


def to_paths(paths: Any, argument: str) -> str | list[str]:
    """Return a path, or the paths of an iterable. Raises TypeError as `to_path` does."""
    if isinstance(paths, Iterable) and not isinstance(paths, (str, bytes, os.PathLike)):
        return [to_path(path, argument) for path in paths]
    return to_path(paths, argument, "str, bytes, os.PathLike or an iterable of them")
