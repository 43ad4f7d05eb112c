"""The caller's own arrays, to be read into."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ._dtypes import format_name

# address, size in bytes, strides in bytes or None for C order, the object itself
Target = tuple[int, int, "tuple[int, ...] | None", Any]


def _is_c_order(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    expected = itemsize
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _described(
    target: Any, name: str
) -> tuple[int, tuple[int, ...], tuple[int, ...] | None, int, str]:
    """Return address, shape, strides in bytes, bytes of an element, and the format's dtype."""
    if hasattr(target, "data_ptr") and hasattr(target, "stride"):  # torch
        if target.device.type != "cpu":
            raise ValueError(f"out[{name!r}] is on {target.device}: only cpu can be read into")
        if target.requires_grad and not target.is_leaf:
            raise ValueError(f"out[{name!r}] is part of a graph: detach it first")
        itemsize = target.element_size()
        strides = tuple(step * itemsize for step in target.stride())
        return target.data_ptr(), tuple(target.shape), strides, itemsize, format_name(target.dtype)
    if hasattr(target, "__array_interface__"):  # numpy
        if not target.flags.writeable:
            raise ValueError(f"out[{name!r}] is read-only")
        if target.dtype.byteorder == ">":
            raise ValueError(f"out[{name!r}] is big-endian, files are little-endian")
        address = target.__array_interface__["data"][0]
        return address, target.shape, target.strides, target.itemsize, format_name(target.dtype)
    raise TypeError(
        f"out[{name!r}] is {type(target).__name__}: numpy arrays and torch tensors can be read into"
    )


def to_target(target: Any, name: str, dtype: str, shape: Sequence[int]) -> Target:
    """Return where a tensor of this dtype and shape goes.

    Raises TypeError for what cannot be read into, ValueError for what does not fit.
    """
    address, own_shape, strides, itemsize, own_dtype = _described(target, name)
    if own_dtype != dtype:
        raise ValueError(f"out[{name!r}] has dtype {own_dtype}, the result {dtype}")
    if tuple(shape) != own_shape:
        raise ValueError(f"out[{name!r}] has shape {own_shape}, the result {tuple(shape)}")
    size = math.prod(own_shape) * itemsize
    if strides is None or size == 0 or _is_c_order(own_shape, strides, itemsize):
        return address, size, None, target
    if any(stride < 0 for stride in strides):
        raise ValueError(f"out[{name!r}] has a negative stride")
    reach = itemsize + sum((n - 1) * step for n, step in zip(own_shape, strides, strict=True))
    return address, reach, strides, target
