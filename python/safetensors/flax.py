"""Save and load JAX arrays.

JAX converts 64-bit numbers to 32 bits unless `jax_enable_x64` is set. This applies to loading, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from . import _exported, _native, numpy
from ._arrays.converters import converter
from ._exported import *
from ._types import Backend, Buffer, Durability

__all__ = ["Array", "jnp", "load", "load_file", "np", "numpy", "save", "save_file"]
__all__ += _exported.__all__

_from_numpy = converter("flax")


# Takes an array that nothing else uses, so JAX may keep its memory. JAX does so if the alignment suits.
_adopt = jax.device_put


def _to_numpy(tensor: Any, name: str) -> np.ndarray[Any, Any]:
    if isinstance(tensor, np.ndarray):
        return tensor
    if isinstance(tensor, jax.Array):
        return np.asarray(tensor)
    return numpy._as_array(tensor, name, "jax.Array")


def _jnp2np(jnp_dict: Mapping[str, jax.Array]) -> dict[str, np.ndarray[Any, Any]]:
    """Return NumPy arrays with the same bytes in a new dict."""
    return numpy._converted(jnp_dict, "jax.Array", _to_numpy)


def _np2jnp(numpy_dict: dict[str, np.ndarray[Any, Any]]) -> dict[str, jax.Array]:
    """Return JAX arrays with the same values in a new dict."""
    return {name: _from_numpy(array) for name, array in numpy_dict.items()}


def _flatten(tensors: Mapping[str, jax.Array], keep_alive_buffer: list[Any]) -> dict[str, TensorSpec]:
    """Return the specs to save. `keep_alive_buffer` receives the owners of their memory."""
    return numpy._flatten(_jnp2np(tensors), keep_alive_buffer)


def save(tensors: Mapping[str, jax.Array], metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes of a file that holds these arrays.

    Raises ValueError for a value of another type, SafetensorError for a dtype that the format lacks.
    """
    return numpy.save(_jnp2np(tensors), metadata)


def save_file(
    tensors: Mapping[str, jax.Array], filename: str | PathLike[str], metadata: dict[str, str] | None = None, *, durability: Durability = "full"
) -> None:
    """Write a file that holds these arrays. It replaces a file that exists at `filename`.

    Arguments and errors are those of `safetensors.numpy.save_file`. Raises ValueError for a value of
    another type. After an error the old file is unchanged.
    """
    numpy.save_file(_jnp2np(tensors), filename, metadata, durability=durability)


def load(data: Buffer) -> dict[str, jax.Array]:
    """Return the arrays of a file in memory, in the order of their bytes.

    `data`: bytes or any object with the buffer protocol. The arrays do not share its memory.
    Raises SafetensorError.
    """
    return {name: _adopt(array) for name, array in _native._load(data, "np").items()}


def load_file(filename: str | PathLike[str], *, backend: Backend = "mmap") -> dict[str, jax.Array]:
    """Return the arrays of a file, in the order of their bytes.

    They never share memory with the file: `backend` only says how the file is read. Raises
    SafetensorError for a file that breaks the format, OSError if the file cannot be read.
    """
    if backend != "pread":
        with safe_open(filename, "jax", backend=backend) as f:
            return f.get_tensors()
    with safe_open(filename, "np", backend=backend) as f:
        return {name: _adopt(array) for name, array in f.get_tensors().items()}
