"""How NumPy's arrays become those of frameworks that the compiled part does not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["converter"]


def converter(framework: str, device: str) -> Callable[..., Any]:
    """Return the function that makes a framework's array of NumPy's, copying it.

    framework: "jax", "tf", "mlx" or "paddle"; device: where the array goes (paddle). Imports the
    framework. For MLX and Paddle, which do without ml_dtypes, the function takes a second argument:
    the name of the dtype whose bits an array of uint16 or uint8 holds, None if it is what it says.
    """
    if framework == "jax":
        from . import flax

        return flax._from_numpy
    if framework == "tf":
        from . import tensorflow

        return tensorflow._from_numpy
    if framework == "mlx":
        from . import mlx

        return mlx._from_numpy
    from . import paddle

    return lambda array, dtype=None: paddle._from_numpy(array, device, dtype)
