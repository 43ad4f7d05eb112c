"""Wraps the functions of the extension, so that `inspect` and editors see their signatures."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from . import _native
from ._native import TensorSpec, safe_open
from ._types import Backend, Buffer, Durability, Framework

__all__ = ["PrefetchPlan", "_safe_open_handle", "deserialize", "serialize", "serialize_file"]

# The plan of `safe_open.prefetch`: names to None (the whole tensor), to a slice of rows, or to lists of slices of the
# first dimensions.
PrefetchPlan = dict[str, slice | tuple[list[slice], ...] | None]


def serialize(tensor_dict: Mapping[str, TensorSpec], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes of a file that holds these tensors.

    `metadata`: a dict of str to str, or None for no metadata. Raises SafetensorError for tensors or
    metadata that no file can hold. The GIL is released while bytes are copied.
    """
    return _native.serialize(tensor_dict, metadata)


def serialize_file(
    tensor_dict: Mapping[str, TensorSpec], filename: str | PathLike[str], metadata: Mapping[str, str] | None = None, *,
    durability: Durability = "full",
) -> None:
    """Write a file that holds these tensors. It replaces a file that exists at `filename`.

    Other programs see the old file or the new one, never a mix. After an error, KeyboardInterrupt
    included, the old file is unchanged. `durability`: after a power cut, "full" guarantees the new
    file, "file" guarantees the old file or the new one, "none" guarantees nothing. Raises
    SafetensorError. Its attribute `errno` is set for an error of the system. The GIL is released.
    """
    _native.serialize_file(tensor_dict, filename, metadata, durability=durability)


def deserialize(bytes: Buffer) -> list[tuple[str, dict[str, Any]]]:
    """Return (name, {"shape", "dtype", "data"}) for each tensor, in the order of their bytes.

    `bytes`: any object with the buffer protocol. "data" is a new bytearray. Raises
    SafetensorError.
    """
    return _native.deserialize(bytes)


def _safe_open_handle(f: Any, framework: Framework, device: Any = "cpu", *, backend: Backend = "mmap") -> safe_open:
    """Return what `safe_open` returns, for a file object that is open for reading.

    The object needs `fileno` and `name`. You may close it afterwards.
    """
    return _native._safe_open_handle(f, framework, device, backend=backend)
