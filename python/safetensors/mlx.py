"""Save and load MLX's arrays.

MLX makes 32-bit floats of 64-bit ones. It has no 8-bit floats: loading them is a SafetensorError.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np

from . import _native
from . import numpy as _numpy
from ._native import SafetensorError, safe_open
from ._types import Backend, Durability

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["load", "load_file", "save", "save_file"]


def _from_numpy(array: np.ndarray[Any, Any], dtype: str | None = None) -> mx.array:
    # dtype: what the array's elements are the bits of, if it is not what NumPy says.
    name = dtype or array.dtype.name
    if name.startswith("float8"):
        raise SafetensorError(f"MLX has no {name}: load with another framework")
    made = mx.array(array)
    return made if dtype is None else made.view(getattr(mx, dtype))


def _to_numpy(tensor: Any, name: str) -> np.ndarray[Any, Any]:
    if isinstance(tensor, np.ndarray):
        return tensor
    if not isinstance(tensor, mx.array):
        return _numpy._as_array(tensor, name, "mlx.core.array")
    if tensor.dtype == mx.bfloat16:  # which NumPy does not take from MLX
        bits = np.asarray(tensor.reshape(-1).view(mx.uint16)).reshape(tensor.shape)
        return bits.view(_numpy._getdtype("BF16"))
    return np.asarray(tensor)  # a view


def _mx2np(mx_dict: Mapping[str, mx.array]) -> dict[str, np.ndarray[Any, Any]]:
    """Return NumPy's arrays of the same bytes; the dict itself is not changed."""
    return _numpy._converted(mx_dict, "mlx.core.array", _to_numpy)


def _np2mx(numpy_dict: dict[str, np.ndarray[Any, Any]]) -> dict[str, mx.array]:
    """Return MLX's arrays of the same values; the dict itself is not changed."""
    return {name: _from_numpy(array) for name, array in numpy_dict.items()}


def save(tensors: Mapping[str, mx.array], metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes of a file that holds these arrays.

    Raises ValueError for what is none, SafetensorError for a dtype that the format lacks.
    """
    return _numpy.save(_mx2np(tensors), metadata)


def save_file(
    tensors: Mapping[str, mx.array],
    filename: str | PathLike[str],
    metadata: dict[str, str] | None = None,
    *,
    durability: Durability = "full",
) -> None:
    """Write a file that holds these arrays, replacing what is at `filename`.

    As `save`. `durability` is explained at `safetensors.numpy.save_file`. Raises SafetensorError
    where the file cannot be written; the old one is then as it was.
    """
    _numpy.save_file(_mx2np(tensors), filename, metadata, durability=durability)


def load(data: Buffer) -> dict[str, mx.array]:
    """Return the arrays of a file in memory, in the order of their bytes; they are copies.

    `data`: bytes or anything with the buffer protocol. Raises SafetensorError.
    """
    return _native._load(data, "mlx", copy=False)


def load_file(
    filename: str | PathLike[str], *, backend: Backend = "mmap"
) -> dict[str, mx.array]:
    """Return the arrays of a file, in the order of their bytes.

    They are copies whatever the backend, which only says how the file is read. Raises
    SafetensorError for a file that breaks the format, OSError where it cannot be read.
    """
    with safe_open(filename, "mlx", backend=backend) as f:
        return f.get_tensors()
