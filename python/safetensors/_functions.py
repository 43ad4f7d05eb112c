"""The functions of the compiled part, with signatures that `inspect` and editors can see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _native
from ._native import TensorSpec, safe_open

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Buffer


__all__ = ["PrefetchPlan", "_safe_open_handle", "deserialize", "serialize", "serialize_file"]

# What `safe_open.prefetch` loads: each name with None for the whole tensor, or a slice of its rows.
PrefetchPlan = dict[str, slice | None]


class _LazySignature:
    """What `inspect.signature` finds on a compiled class: that of a function that does nothing."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is not None:
            raise AttributeError("__signature__")
        import inspect  # which nothing else here needs

        return inspect.signature(self._function)


def _safe_open(
    filename: str | PathLike[str], framework: str, device: Any = "cpu", *, backend: str = "mmap"
) -> None: ...


def _tensor_spec(*, dtype: str, shape: Sequence[int], data_ptr: int, data_len: int) -> None: ...


setattr(safe_open, "__signature__", _LazySignature(_safe_open))  # noqa: B010
setattr(TensorSpec, "__signature__", _LazySignature(_tensor_spec))  # noqa: B010


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
    durability: str = "full",
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
    f: Any, framework: str, device: Any = "cpu", *, backend: str = "mmap"
) -> safe_open:
    """Do what `safe_open` does with a file object that is open for reading.

    The object may be closed afterwards; it needs `fileno` and `name`.
    """
    return _native._safe_open_handle(f, framework, device, backend=backend)
