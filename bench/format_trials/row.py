"""What a format must offer to the experiments. Each row of the table is a class that derives from Row.

A row runs in an interpreter that has the library of the format. It imports the library inside of its methods.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Tensors = dict[str, "np.ndarray[Any, Any]"]
CODE = "lambda x: 3 * x + 1"


class Reader(NamedTuple):
    """A way to get one tensor: function(path, name) returns an array without a copy of its own."""

    label: str
    function: Callable[[str, str], Any]
    variant: str = ""  # of write()
    cap: str = ""  # a reason for which this way counts as "partly" at most


class Loader(NamedTuple):
    """A way to load a whole file. function(path) reads every tensor of it."""

    label: str
    function: Callable[[str], Any]
    opt_in: bool = False  # the caller has to ask for it


class NotOffered(Exception):
    """The library lacks a feature. The message names it."""


class Payload:
    """Harmless code in a pickle: unpickling creates an empty file."""

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (self.marker, "w"))


class Carried:
    """Code of the user's in a pickle: unpickling returns a function that no module defines."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (eval, (CODE,))


def payload(marker: str) -> bytes:
    return pickle.dumps(Payload(marker), protocol=2)


class Row:
    """A format and its library."""

    title = ""
    key = ""  # of --environment and --only
    packages: tuple[str, ...] = ()  # the first is the library
    suffix = ""
    code_is = "code"  # the kind of code that the format can carry
    aligned_by = ""  # how write_aligned() does it, if the reader should know

    def versions(self) -> str:
        return ", ".join(f"{each} {metadata.version(each)}" for each in self.packages)

    def write(self, path: str, tensors: Tensors, variant: str = "") -> None:
        """Write the tensors in the order of the dict."""
        raise NotImplementedError

    def write_ordered(self, path: str, tensors: Tensors) -> None:
        """Write the tensors in the order of the dict, with an option if there is one."""
        self.write(path, tensors)

    def write_aligned(self, path: str, tensors: Tensors, align: int) -> None:
        """Write the tensors so that each begins at a multiple of `align` bytes."""
        raise NotOffered("the writer takes no alignment")

    def names(self, path: str) -> list[str]:
        """Return the names in the order in which the library lists them."""
        raise NotOffered("the reader lists no names")

    def readers(self) -> list[Reader]:
        raise NotImplementedError

    def loaders(self) -> list[Loader]:
        """The first is the default."""
        raise NotImplementedError

    def code(self, path: str, marker: str) -> str:
        """Write a file that tries to create `marker` when it is loaded. Return how."""
        raise NotImplementedError

    def lie(self, path: str) -> str:
        """Write a small file that declares 1 TB of data or more. Return how."""
        raise NotImplementedError

    def bomb(self, path: str) -> str:
        """Write a file of a few MiB that takes much more by the format's own rules. Return how."""
        raise NotOffered("no compression, no sharing, no small objects")

    def deep(self, path: str) -> str:
        """Write a file that nests 200,000 levels. Return how."""
        raise NotOffered("nothing nests")

    def outside(self, path: str, secret: str) -> str:
        """Write a file that makes the reader load the file `secret`. Return how."""
        raise NotOffered("no references to files")

    def store(self, path: str, kind: str) -> None:
        """Store "code" (a function x -> 3x + 1), "nested" (NESTED) or "text" (TEXT)."""
        raise NotOffered("the library stores arrays only")

    def fetch(self, path: str, kind: str) -> Any:
        """Return the function, the nested value or the text."""
        raise NotOffered("the library stores arrays only")

    def round_trip(self, path: str, array: Any) -> Any:
        """Write this array of ml_dtypes, and return the array that the library reads."""
        raise NotImplementedError


NESTED: Any = {"steps": [1, 2.5, "three", None, True], "inner": {"name": "adam"}}
TEXT = {"license": "apache-2.0"}


def as_numpy(value: Any) -> Any:
    """View a tensor of a framework as an ndarray, without a copy."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "detach"):
        return value.detach().numpy()
    return np.asarray(value)


def npy_bytes(header: str) -> bytes:
    """Return an .npy file of version 1 with this header and no data."""
    text = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
    out = io.BytesIO()
    out.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    return out.getvalue()


def save_bytes(path: str, data: bytes) -> None:
    Path(path).write_bytes(data)
