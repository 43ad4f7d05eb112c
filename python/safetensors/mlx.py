"""Save and load MLX arrays.

MLX converts 64-bit floats to 32 bits. It has no 8-bit floats: loading them raises SafetensorError.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core as mx
import numpy as np

from . import numpy as _numpy
from ._load_checkpoint import LoadCheckpoint, for_cpu
from ._make_save import SaveCheckpoint, make_save
from ._native import SafetensorError
from ._via_numpy import make_functions

__all__ = [
    "load",
    "load_checkpoint",
    "load_file",
    "save",
    "save_checkpoint",
    "save_file",
]


def _from_numpy(array: np.ndarray[Any, Any], dtype: str | None = None) -> mx.array:
    # dtype: the dtype of the elements, if the array holds their bits as unsigned integers.
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
    if tensor.dtype == mx.bfloat16:  # NumPy cannot take this dtype from MLX
        bits = np.asarray(tensor.reshape(-1).view(mx.uint16)).reshape(tensor.shape)
        return bits.view(_numpy._getdtype("BF16"))
    return np.asarray(tensor)  # a view


def _mx2np(mx_dict: Mapping[str, mx.array]) -> dict[str, np.ndarray[Any, Any]]:
    """Return NumPy arrays with the same bytes in a new dict."""
    return _numpy._converted(mx_dict, "mlx.core.array", _to_numpy)


def _np2mx(numpy_dict: dict[str, np.ndarray[Any, Any]]) -> dict[str, mx.array]:
    """Return a new dict of MLX arrays. 64-bit floats become 32-bit floats."""
    return {name: _from_numpy(array) for name, array in numpy_dict.items()}


save, save_file, load, load_file = make_functions(
    __name__, "mlx", "mx.array", "arrays", _mx2np
)
save_checkpoint: SaveCheckpoint[mx.array]
save_checkpoint, _save_file = make_save(
    __name__,
    "mx.array",
    "arrays",
    lambda tensors, keep: (_numpy._flatten(_mx2np(tensors), keep), None),
)
load_checkpoint: LoadCheckpoint[mx.array] = for_cpu(__name__, "mlx", "mx.array", "arrays")
