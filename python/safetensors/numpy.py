"""Save and load NumPy arrays.

bfloat16 and 8-bit floats are dtypes of the package ml_dtypes. Tensors with elements of 4 and 6 bits
load as packed uint8.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from os import PathLike

import numpy as np

from . import _exported, _native
from ._arrays.dtypes import UNPACKED
from ._arrays.numpy_dtypes import _TYPES as _TYPES
from ._arrays.numpy_dtypes import _getdtype as _getdtype
from ._exported import *
from ._native import SafetensorError
from ._types import Backend, Buffer, Durability

__all__ = ["load", "load_file", "np", "save", "save_file"]
__all__ += _exported.__all__

Array = np.ndarray[Any, Any]


def _is_little_endian(tensor: Array) -> bool:
    """Return whether the array is little-endian."""
    order = tensor.dtype.byteorder
    return order in ("<", "|") or (order == "=" and sys.byteorder == "little")


def _packed(tensor: Any, name: str) -> Array:
    """Return an array whose memory has the layout of a file: C order, little-endian."""
    if isinstance(tensor, np.generic):
        tensor = np.asarray(tensor)
    if not isinstance(tensor, np.ndarray):
        raise ValueError(f"Key `{name}` is invalid, expected numpy.ndarray but received {type(tensor)}")
    if isinstance(tensor, np.ma.MaskedArray):
        raise ValueError(
            f"Key `{name}` is a masked array, and a file has no place for the mask: call `.filled()` first."
        )
    array: Array = np.asarray(tensor)  # a subclass may report any address
    if array.dtype.kind == "V" and (dtype := _name(array.dtype)) in UNPACKED:
        raise SafetensorError(
            f"Key `{name}` has dtype {dtype}, which takes a byte for each element, and the format"
            f" packs {UNPACKED[dtype]}: pack it into uint8 and write it with `safetensors.Writer`."
        )
    if not _is_little_endian(array):
        array = array.astype(array.dtype.newbyteorder("<"), order="C")
    if not array.flags.c_contiguous:
        array = array.copy(order="C")
    return array


@lru_cache(maxsize=64)
def _name(dtype: np.dtype[Any]) -> str:
    # NumPy makes a new string on each access. For a small array this takes most of the time.
    return dtype.name


def _spec(tensor: Array, dtype: str | None = None) -> TensorSpec:
    """Describe an array from `_packed`. `dtype`: that of its bytes, if not the array's own."""
    return TensorSpec(
        dtype=dtype or _name(tensor.dtype),
        shape=tensor.shape,
        data_ptr=tensor.__array_interface__["data"][0],
        data_len=tensor.nbytes,
    )


def _as_array(value: Any, name: str, expected: str) -> Array:
    """Convert a value that is not an array of the framework: numbers, lists, other arrays."""
    array: Array = np.asarray(value)
    if array.dtype.kind in "OSU":
        raise ValueError(f"Key `{name}` is invalid, expected {expected} but received {type(value)}")
    return array


def _converted(tensors: Mapping[str, Any], expected: str, convert: Callable[[Any, str], Array]) -> dict[str, Array]:
    """Return a new dict of `convert(tensor, name)`.

    Any mapping is accepted, such as the one that numpy.load returns for an .npz file.
    """
    if not isinstance(tensors, Mapping):
        raise ValueError(f"Expected a dict of [str, {expected}] but received {type(tensors)}")
    return {name: convert(tensor, name) for name, tensor in tensors.items()}


def _flatten(tensor_dict: Mapping[str, Array], keep_alive_buffer: list[Any]) -> dict[str, TensorSpec]:
    """Return the specs to save. `keep_alive_buffer` receives the owners of their memory."""
    if not isinstance(tensor_dict, Mapping):
        raise ValueError(f"Expected a dict of [str, numpy.ndarray] but received {type(tensor_dict)}")
    specs = {}
    for name, tensor in tensor_dict.items():
        packed = _packed(tensor, name)
        # Keep every array: a mapping that makes an array on each access does not keep it.
        keep_alive_buffer.append(packed)
        specs[name] = _spec(packed)
    return specs


def save(tensor_dict: Mapping[str, Array], metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes of a file that holds these arrays.

    Arrays that are not in C order or not little-endian are packed. Raises ValueError for a masked
    array or a value of another type, SafetensorError for a dtype that the format lacks.
    """
    keep_alive: list[Any] = []
    return _native.serialize(_flatten(tensor_dict, keep_alive), metadata)


def save_file(
    tensor_dict: Mapping[str, Array], filename: str | PathLike[str], metadata: dict[str, str] | None = None, *,
    durability: Durability = "full",
) -> None:
    """Write a file that holds these arrays. It replaces a file that exists at `filename`.

    Other programs see the old file or the new one, never a mix. `durability`: after a power cut,
    "full" guarantees the new file, "file" guarantees the old file or the new one, "none" guarantees
    nothing. Raises as `save`, and SafetensorError if the file cannot be written. After an error the
    old file is unchanged.
    """
    keep_alive: list[Any] = []
    _native.serialize_file(_flatten(tensor_dict, keep_alive), filename, metadata, durability=durability)


def load(data: Buffer, *, copy: bool = True) -> dict[str, Array]:
    """Return the arrays of a file in memory, in the order of their bytes.

    `data`: bytes or any object with the buffer protocol. With `copy=False` an array is a view of
    `data` if its bytes are aligned. The view is read-only if `data` is. Raises SafetensorError.
    """
    return _native._load(data, "np", copy=copy)


def load_file(filename: str | PathLike[str], *, backend: Backend = "mmap") -> dict[str, Array]:
    """Return the arrays of a file, in the order of their bytes.

    With the backend "mmap" arrays are writable views of a private map of the file. A page is read
    on first access and copied on first write. With "pread" and "auto" several threads read into
    memory that the arrays own. On network and user-space file systems "mmap" is the same as
    "pread", unless the environment variable SAFETENSORS_BACKEND is "mmap". Raises
    SafetensorError for a file that breaks the format, OSError if the file cannot be read.
    """
    with safe_open(filename, "np", backend=backend) as f:
        return f.get_tensors()


def _view2np(safeview: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, Array]:
    """Return arrays over the bytearrays that `safetensors.deserialize` returned."""
    return {
        name: np.frombuffer(view["data"], dtype=_getdtype(view["dtype"])).reshape(view["shape"])
        for name, view in safeview
    }
