"""The type of the argument `verify`. It exists at run time, too, for `typing.get_type_hints`."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    from .manifest import Manifest
else:
    Manifest = Any  # its module imports more than a load without `verify` needs

__all__ = ["Verify"]

Verify = Union[Manifest, str, PathLike[str]]  # noqa: UP007
