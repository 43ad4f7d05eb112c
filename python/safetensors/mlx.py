"""Save and load MLX arrays.

MLX converts 64-bit floats to 32 bits. It has no 8-bit floats: loading them raises SafetensorError.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

import mlx.core as mx
import numpy as np

from . import _exported, _native, numpy
from ._arrays.converters import converter
from ._arrays.numpy_dtypes import _getdtype
from ._exported import *
from ._types import Backend, Buffer, Durability

__all__ = ["load", "load_file", "mx", "np", "numpy", "save", "save_file"]
__all__ += _exported.__all__

_from_numpy = converter("mlx")


def _to_numpy(tensor: Any, name: str) -> np.ndarray[Any, Any]:
    if isinstance(tensor, np.ndarray):
        return tensor
    if not isinstance(tensor, mx.array):
        return numpy._as_array(tensor, name, "mlx.core.array")
    if tensor.dtype == mx.bfloat16:  # NumPy cannot take this dtype from MLX
        bits = np.asarray(tensor.reshape(-1).view(mx.uint16)).reshape(tensor.shape)
        return bits.view(_getdtype("BF16"))
    return np.asarray(tensor)  # a view


def _mx2np(mx_dict: Mapping[str, mx.array]) -> dict[str, np.ndarray[Any, Any]]:
    """Return NumPy arrays with the same bytes in a new dict."""
    return numpy._converted(mx_dict, "mlx.core.array", _to_numpy)


def _np2mx(numpy_dict: dict[str, np.ndarray[Any, Any]]) -> dict[str, mx.array]:
    """Return a new dict of MLX arrays. 64-bit floats become 32-bit floats."""
    return {name: _from_numpy(array) for name, array in numpy_dict.items()}


def _flatten(tensors: Mapping[str, mx.array], keep_alive_buffer: list[Any]) -> dict[str, TensorSpec]:
    """Return the specs to save. `keep_alive_buffer` receives the owners of their memory."""
    return numpy._flatten(_mx2np(tensors), keep_alive_buffer)


def save(tensors: Mapping[str, mx.array], metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes of a file that holds these arrays.

    Raises ValueError for a value of another type, SafetensorError for a dtype that the format lacks.
    """
    return numpy.save(_mx2np(tensors), metadata)


def save_file(
    tensors: Mapping[str, mx.array], filename: str | PathLike[str], metadata: dict[str, str] | None = None, *, durability: Durability = "full"
) -> None:
    """Write a file that holds these arrays. It replaces a file that exists at `filename`.

    Arguments and errors are those of `safetensors.numpy.save_file`. Raises ValueError for a value of
    another type. After an error the old file is unchanged.
    """
    numpy.save_file(_mx2np(tensors), filename, metadata, durability=durability)


def load(data: Buffer) -> dict[str, mx.array]:
    """Return the arrays of a file in memory, in the order of their bytes.

    `data`: bytes or any object with the buffer protocol. The arrays do not share its memory.
    Raises SafetensorError.
    """
    return _native._load(data, "mlx", copy=False)


def load_file(filename: str | PathLike[str], *, backend: Backend = "mmap") -> dict[str, mx.array]:
    """Return the arrays of a file, in the order of their bytes.

    They never share memory with the file: `backend` only says how the file is read. Raises
    SafetensorError for a file that breaks the format, OSError if the file cannot be read.
    """
    with safe_open(filename, "mlx", backend=backend) as f:
        return f.get_tensors()
