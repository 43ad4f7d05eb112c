"""The allowed words of some arguments, for type checkers."""

from __future__ import annotations

from typing import Literal

__all__ = ["Backend", "Cache", "Durability", "Framework"]

Backend = Literal["mmap", "pread", "auto"]
Cache = Literal["keep", "fill", "drop", "bypass"]
Durability = Literal["full", "file", "none"]
Framework = Literal[
    "pt",
    "torch",
    "pytorch",
    "np",
    "numpy",
    "tf",
    "tensorflow",
    "jax",
    "flax",
    "mlx",
    "paddle",
]
