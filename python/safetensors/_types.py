"""The types of some arguments. They exist at run time, too, for `typing.get_type_hints`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal
from typing import TypeVar as TypingTypeVar

if TYPE_CHECKING:
    from typing_extensions import Buffer
elif sys.version_info >= (3, 12):
    from collections.abc import Buffer
else:
    Buffer = Any

__all__ = ["Backend", "Buffer", "Cache", "Durability", "Fault", "Framework", "Paths", "Tensor", "TensorOrder"]

# The type of the tensors of a framework.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Tensor = TypeVar("Tensor", default=Any)
else:
    Tensor = TypingTypeVar("Tensor")

Backend = Literal["mmap", "pread", "auto"]
Fault = Literal["unknown_dtypes", "unused_bytes"]
Cache = Literal["auto", "keep", "fill"]
Durability = Literal["full", "file", "none"]
TensorOrder = Literal["writer", "given"]
Framework = Literal["pt", "torch", "pytorch", "np", "numpy", "tf", "tensorflow", "jax", "flax", "mlx", "paddle"]
_Path = str | PathLike[str]
Paths = _Path | Iterable[_Path]
