"""Save and load JAX's arrays.

Without `jax_enable_x64`, 64-bit numbers load as 32-bit ones, as everywhere in JAX.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from . import _native
from . import numpy as _numpy
from ._native import safe_open

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["load", "load_file", "save", "save_file"]


def _from_numpy(array: np.ndarray[Any, Any]) -> jax.Array:
    # A copy: JAX takes arrays to be immutable, and a mapped file need not be.
    return jnp.array(array)


def _to_numpy(tensor: Any, name: str) -> np.ndarray[Any, Any]:
    if not isinstance(tensor, (jax.Array, np.ndarray)):
        raise ValueError(f"Key `{name}` is invalid, expected jax.Array but received {type(tensor)}")
    return np.asarray(tensor)


def _jnp2np(jnp_dict: dict[str, jax.Array]) -> dict[str, np.ndarray[Any, Any]]:
    """Return NumPy's arrays of the same bytes; the dict itself is not changed."""
    if not isinstance(jnp_dict, dict):
        raise ValueError(f"Expected a dict of [str, jax.Array] but received {type(jnp_dict)}")
    return {name: _to_numpy(tensor, name) for name, tensor in jnp_dict.items()}


def _np2jnp(numpy_dict: dict[str, np.ndarray[Any, Any]]) -> dict[str, jax.Array]:
    """Return JAX's arrays of the same values; the dict itself is not changed."""
    return {name: _from_numpy(array) for name, array in numpy_dict.items()}


def save(tensors: dict[str, jax.Array], metadata: dict[str, str] | None = None) -> bytes:
    """Return the bytes of a file that holds these arrays.

    Raises ValueError for what is none, SafetensorError for a dtype that the format lacks.
    """
    return _numpy.save(_jnp2np(tensors), metadata)


def save_file(
    tensors: dict[str, jax.Array],
    filename: str | PathLike[str],
    metadata: dict[str, str] | None = None,
    *,
    durability: str = "full",
) -> None:
    """Write a file that holds these arrays, replacing what is at `filename`.

    As `save`. `durability` is explained at `safetensors.numpy.save_file`. Raises SafetensorError
    where the file cannot be written; the old one is then as it was.
    """
    _numpy.save_file(_jnp2np(tensors), filename, metadata, durability=durability)


def load(data: Buffer) -> dict[str, jax.Array]:
    """Return the arrays of a file in memory, in the order of their bytes; they are copies.

    `data`: bytes or anything with the buffer protocol. Raises SafetensorError.
    """
    return _native._load(data, "jax", copy=False)


def load_file(
    filename: str | PathLike[str], *, backend: str = "mmap"
) -> dict[str, jax.Array]:
    """Return the arrays of a file, in the order of their bytes.

    They are copies whatever the backend, which only says how the file is read. Raises
    SafetensorError for a file that breaks the format, OSError where it cannot be read.
    """
    with safe_open(filename, "jax", backend=backend) as f:
        return f.get_tensors()
