"""The functions of the compiled part, with signatures that `inspect` and editors can see."""

from __future__ import annotations

from . import _native
from ._native import TensorSpec, safe_open

TYPE_CHECKING = False  # typing's, whose import would take longer than all else here
if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike
    from typing import Any

    from typing_extensions import Buffer

    from ._types import Backend, Durability, Framework

__all__ = ["PrefetchPlan", "_safe_open_handle", "deserialize", "serialize", "serialize_file"]

# What `safe_open.prefetch` loads: each name with None for the whole tensor, or a slice of its rows.
PrefetchPlan = dict[str, slice | None]


def serialize(
    tensor_dict: Mapping[str, TensorSpec], metadata: Mapping[str, str] | None = None
) -> bytes:
    """Return the bytes of a file that holds these tensors.

    `metadata`: str to str, or None for no metadata at all. Raises SafetensorError for what no file
    can hold. The GIL is released while bytes are copied.
    """
    return _native.serialize(tensor_dict, metadata)


def serialize_file(
    tensor_dict: Mapping[str, TensorSpec],
    filename: str | PathLike[str],
    metadata: Mapping[str, str] | None = None,
    *,
    durability: Durability = "full",
) -> None:
    """Write a file that holds these tensors, replacing what is at `filename`.

    Programs see the old file or the new one, never a mix; after an error, KeyboardInterrupt
    included, the old one is as it was. `durability`: with "full" the new file is there after a
    power cut, with "file" the old or the new one, with "none" nothing is promised. Raises
    SafetensorError, with the attribute `errno` where the system refused. The GIL is released.
    """
    _native.serialize_file(tensor_dict, filename, metadata, durability=durability)


def deserialize(bytes: Buffer) -> list[tuple[str, dict[str, Any]]]:
    """Return (name, {"shape", "dtype", "data"}) for each tensor, in the order of their bytes.

    `bytes`: anything with the buffer protocol. "data" is a bytearray of its own. Raises
    SafetensorError.
    """
    return _native.deserialize(bytes)


def _safe_open_handle(
    f: Any, framework: Framework, device: Any = "cpu", *, backend: Backend = "mmap"
) -> safe_open:
    """Do what `safe_open` does with a file object that is open for reading.

    The object may be closed afterwards; it needs `fileno` and `name`.
    """
    return _native._safe_open_handle(f, framework, device, backend=backend)
