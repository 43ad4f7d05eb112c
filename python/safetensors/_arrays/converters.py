"""Finds the functions that convert NumPy arrays for frameworks that the extension does not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["converter"]


def converter(framework: str, device: str) -> Callable[..., Any]:
    """Return the function that copies a NumPy array into an array of the framework.

    `framework`: "jax", "tf", "mlx" or "paddle". `device`: the device of the array (paddle). Imports
    the framework. The functions for MLX and Paddle, which work without ml_dtypes, take a second
    argument: the name of the dtype whose bits a uint16 or uint8 array holds, or None if the array
    has its own dtype.
    """
    if framework == "jax":
        from . import jax_arrays

        return jax_arrays._from_numpy
    if framework == "tf":
        from . import tensorflow_arrays

        return tensorflow_arrays._from_numpy
    if framework == "mlx":
        from . import mlx_arrays

        return mlx_arrays._from_numpy
    from . import paddle_arrays

    return lambda array, dtype=None: paddle_arrays._from_numpy(array, device, dtype)
