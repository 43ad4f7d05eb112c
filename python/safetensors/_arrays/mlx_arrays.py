"""The conversion of NumPy arrays to MLX arrays."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np

from .._native import SafetensorError


def _from_numpy(array: np.ndarray[Any, Any], dtype: str | None = None) -> mx.array:
    # dtype: the dtype of the elements, if the array holds their bits as unsigned integers.
    name = dtype or array.dtype.name
    if name.startswith("float8"):
        raise SafetensorError(f"MLX has no {name}: load with another framework")
    made = mx.array(array)
    return made if dtype is None else made.view(getattr(mx, dtype))
