"""The types of some arguments. They exist at run time, too, for `typing.get_type_hints`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from typing_extensions import Buffer
elif sys.version_info >= (3, 12):
    from collections.abc import Buffer
else:
    Buffer = Any

__all__ = ["Backend", "Buffer", "Cache", "Durability", "Framework"]

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
