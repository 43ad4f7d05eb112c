"""Save and load JAX's arrays.

Without `jax_enable_x64`, 64-bit numbers load as 32-bit ones, as everywhere in JAX.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import numpy as _numpy
from ._via_numpy import make_functions

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


save, save_file, load, load_file = make_functions(
    __name__, "jax", "jax.Array", "arrays", _jnp2np, adopt=_given
)
