"""Save and load JAX arrays.

JAX converts 64-bit numbers to 32 bits unless `jax_enable_x64` is set. This applies to loading, too.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from . import numpy
from ._arrays.converters import converter
from ._frameworks import exported
from ._frameworks.exported import *
from ._frameworks.make_save import make_save
from ._frameworks.via_numpy import make_functions

__all__ = ["Array", "jnp", "load", "load_file", "np", "numpy", "save", "save_file"]
__all__ += exported.__all__

_from_numpy = converter("flax")


def _adopt(array: np.ndarray[Any, Any]) -> jax.Array:
    # Nothing else uses this array, so JAX may keep its memory. It does so if the alignment suits.
    return jax.device_put(array)


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


save, save_file, load, load_file = make_functions(
    __name__, "jax", "jax.Array", "arrays", _flatten, adopt=_adopt
)
_save_folder, _save_file = make_save(lambda tensors, keep: (_flatten(tensors, keep), None))
