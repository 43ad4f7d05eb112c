"""Converts NumPy arrays for frameworks that the extension does not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._native import SafetensorError

__all__ = ["converter"]


def converter(framework: str, device: str = "cpu") -> Callable[..., Any]:
    """Return the function that copies a NumPy array into an array of the framework.

    `framework`: "flax", "tensorflow", "mlx" or "paddle". `device`: the device of the array (paddle). Imports
    the framework. The functions for MLX and Paddle, which work without ml_dtypes, take a second
    argument: the name of the dtype whose bits a uint16 or uint8 array holds, or None if the array
    has its own dtype.
    """
    if framework == "flax":
        import jax.numpy as jnp

        # Wait for the copy. JAX copies in the background, and meanwhile the caller may change the buffer,
        # or another program the mapped file.
        return lambda array: jnp.array(array).block_until_ready()
    if framework == "tensorflow":
        import tensorflow as tf

        return lambda array: tf.convert_to_tensor(_held(array, array.dtype.name, "TensorFlow", "float8_e8m0fnu"))
    if framework == "mlx":
        import mlx.core as mx

        def to_mlx(array: Any, dtype: str | None = None) -> mx.array:
            made = mx.array(_held(array, dtype or array.dtype.name, "MLX", "float8"))
            return made if dtype is None else made.view(getattr(mx, dtype))

        return to_mlx
    from . import paddle_arrays

    return lambda array, dtype=None: paddle_arrays._from_numpy(array, device, dtype)


def _held(array: Any, name: str, framework: str, lacked: str) -> Any:
    """Return the array. Raises SafetensorError if the framework lacks its dtype."""
    if name.startswith(lacked):
        raise SafetensorError(f"{framework} has no {name}: load with another framework")
    return array
