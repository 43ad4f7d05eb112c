"""Save and load JAX's arrays.

Without `jax_enable_x64`, 64-bit numbers load as 32-bit ones, as everywhere in JAX.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from . import _native
from . import numpy as _numpy
from ._native import safe_open
from ._types import Backend, Durability

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["load", "load_file", "save", "save_file"]


def _from_numpy(array: np.ndarray[Any, Any]) -> jax.Array:
    # A copy, and a finished one: JAX copies in the background, while the caller may go on to change
    # the buffer, or others the mapped file.
    return jnp.array(array).block_until_ready()


def _given(array: np.ndarray[Any, Any]) -> jax.Array:
    # Without a copy where the place in memory suits JAX: nobody else has this array.
    return jax.device_put(array)


def _to_numpy(tensor: Any, name: str) -> np.ndarray[Any, Any]:
    if isinstance(tensor, np.ndarray):
        return tensor
    if isinstance(tensor, jax.Array):
        return np.asarray(tensor)
    return _numpy._as_array(tensor, name, "jax.Array")


def _jnp2np(jnp_dict: Mapping[str, jax.Array]) -> dict[str, np.ndarray[Any, Any]]:
    """Return NumPy's arrays of the same bytes; the dict itself is not changed."""
    return _numpy._converted(jnp_dict, "jax.Array", _to_numpy)


def _np2jnp(numpy_dict: dict[str, np.ndarray[Any, Any]]) -> dict[str, jax.Array]:
    """Return JAX's arrays of the same values; the dict itself is not changed."""
    return {name: _from_numpy(array) for name, array in numpy_dict.items()}


def save(tensors: Mapping[str, jax.Array], metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes of a file that holds these arrays.

    Raises ValueError for what is none, SafetensorError for a dtype that the format lacks.
    """
    return _numpy.save(_jnp2np(tensors), metadata)


def save_file(
    tensors: Mapping[str, jax.Array],
    filename: str | PathLike[str],
    metadata: dict[str, str] | None = None,
    *,
    durability: Durability = "full",
) -> None:
    """Write a file that holds these arrays, replacing what is at `filename`.

    As `save`. `durability` is explained at `safetensors.numpy.save_file`. Raises SafetensorError
    where the file cannot be written; the old one is then as it was.
    """
    _numpy.save_file(_jnp2np(tensors), filename, metadata, durability=durability)


def load(data: Buffer) -> dict[str, jax.Array]:
    """Return the arrays of a file in memory, in the order of their bytes.

    `data`: bytes or anything with the buffer protocol, which no array shares memory with. Raises
    SafetensorError.
    """
    arrays = _native._load(data, "np")
    return {name: _given(array) for name, array in arrays.items()}


def load_file(
    filename: str | PathLike[str], *, backend: Backend = "mmap"
) -> dict[str, jax.Array]:
    """Return the arrays of a file, in the order of their bytes.

    With the backend "mmap" they are copied from a map of the file, with "pread" the file is read by
    several threads into memory of their own. Raises SafetensorError for a file that breaks the
    format, OSError where it cannot be read.
    """
    if backend != "pread":
        with safe_open(filename, "jax", backend=backend) as f:
            return f.get_tensors()
    with safe_open(filename, "np", backend=backend) as f:
        return {name: _given(array) for name, array in f.get_tensors().items()}
