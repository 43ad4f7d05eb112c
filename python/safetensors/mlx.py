"""Save and load MLX arrays.

MLX converts 64-bit floats to 32 bits. It has no 8-bit floats: loading them raises SafetensorError.
"""

from __future__ import annotations

from collections.abc import Mapping

import mlx.core as mx
import numpy as np

from . import numpy
from ._arrays.converters import converter
from ._arrays.numpy_dtypes import _getdtype
from ._frameworks import exported
from ._frameworks.exported import *
from ._frameworks.make_save import make_save
from ._frameworks.via_numpy import make_functions

__all__ = ["load", "load_file", "mx", "np", "numpy", "save", "save_file"]
__all__ += exported.__all__

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


save, save_file, load, load_file = make_functions(
    __name__, "mlx", "mx.array", "arrays", _flatten
)
_save_folder, _save_file = make_save(lambda tensors, keep: (_flatten(tensors, keep), None))
