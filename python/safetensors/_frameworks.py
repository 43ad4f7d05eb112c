"""How NumPy's arrays become those of frameworks that the compiled part does not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["converter"]


def converter(framework: str, device: str) -> Callable[[Any], Any]:
    """Return the function that makes a framework's array of NumPy's, copying it.

    framework: "jax", "tf", "mlx" or "paddle"; device: where the array goes (paddle). Imports the
    framework.
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

    return lambda array: paddle._from_numpy(array, device)
