"""Types of arguments, also of the extension's. They exist at run time for `typing.get_type_hints`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal
from typing import TypeVar as TypingTypeVar

if TYPE_CHECKING:
    from typing_extensions import Buffer
elif sys.version_info >= (3, 12):
    from collections.abc import Buffer
else:
    Buffer = Any

__all__ = [
    "Backend", "Buffer", "Cache", "Durability", "Fault", "Framework", "Paths", "Progress", "Request", "Target", "Tensor",
    "TensorOrder", "Value",
]

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
Progress = Callable[[int, int], object]

# address, size in bytes, dtype and shape (None: as the tensor), owner of the bytes
Value = tuple[int, int, str | None, tuple[int, ...] | None, Any]
# address, size in bytes, strides in bytes (None: C order), the array itself; for memory of a CUDA device, its ordinal
Target = tuple[int, int, tuple[int, ...] | None, Any] | tuple[int, int, None, Any, int]
# The name, the index of the slice, the dtype to cast to, and the memory. None: whole, as stored, new.
Request = tuple[str, Any, str | None, Target | None]
