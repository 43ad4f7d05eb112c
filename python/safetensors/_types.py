"""The types of some arguments. They exist at run time, too, for `typing.get_type_hints`."""

from __future__ import annotations

import sys
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Union
from typing import TypeVar as TypingTypeVar

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._manifest import Manifest
elif sys.version_info >= (3, 12):
    from collections.abc import Buffer
else:
    Buffer = Any

if not TYPE_CHECKING:
    Manifest = Any  # its module imports more than a load without `verify` needs

__all__ = [
    "Backend",
    "Buffer",
    "Cache",
    "Durability",
    "Framework",
    "Tensor",
    "TensorOrder",
    "Verify",
]

# The type of the tensors of a framework.
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Tensor = TypeVar("Tensor", default=Any)
else:
    Tensor = TypingTypeVar("Tensor")

Backend = Literal["mmap", "pread", "auto"]
Cache = Literal["auto", "keep", "fill", "drop", "bypass"]
Durability = Literal["full", "file", "none"]
TensorOrder = Literal["writer", "given", "aligned"]
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
Verify = Union[Manifest, str, PathLike[str]]  # noqa: UP007
