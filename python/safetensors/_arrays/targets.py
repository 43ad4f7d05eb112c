"""Checks the arrays of the argument `out`, which results are read into."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from .._native import SafetensorError
from .._types import Target
from .dtypes import PACKED, UNPACKED, format_name


def is_torch(array: Any) -> bool:
    """Return whether the object is a torch tensor. Does not import torch: without it, no object is one."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def is_numpy(array: Any) -> bool:
    """Return whether it is a NumPy array or scalar."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(array, (numpy.ndarray, numpy.generic))


def is_masked(array: Any) -> bool:
    """Return whether it is a masked NumPy array."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(array, masked.MaskedArray)


def reach(tensor: Any) -> int:
    """Return the number of elements from the first to the last of a torch tensor that is not empty."""
    if tensor.is_contiguous():
        return int(tensor.numel())
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return 1 + int(sum((count - 1) * step for count, step in steps))


def check_storage(tensor: Any, what: str) -> None:
    """Raise ValueError for a torch tensor whose storage was made smaller than the tensor.

    The bytes past the end of the storage do not belong to the tensor.
    """
    if tensor.numel() == 0:
        return
    storage = tensor.untyped_storage()
    end = storage.data_ptr() + storage.nbytes()
    if tensor.data_ptr() + reach(tensor) * tensor.element_size() > end:
        raise ValueError(f"{what} is larger than its storage of {storage.nbytes()} bytes")


def _check_torch(target: Any, what: str) -> None:
    if not target.is_cpu:
        raise ValueError(f"{what} is on {target.device}: only cpu can be read into")
    if target.layout is not sys.modules["torch"].strided:
        raise ValueError(f"{what} is {target.layout}: only torch.strided can be read into")
    if target.requires_grad and not target.is_leaf:
        raise ValueError(f"{what} is part of a graph: detach it first")
    if target.is_conj() or target.is_neg():
        raise ValueError(f"{what} is a conjugated or negated view: resolve it first")
    check_storage(target, what)


def _check_numpy(target: Any, what: str) -> None:
    if is_masked(target):
        raise ValueError(f"{what} is a masked array: give its data")
    if not target.flags.writeable:
        raise ValueError(f"{what} is read-only")
    if not target.dtype.isnative:
        raise ValueError(f"{what} is big-endian, files are little-endian")
    if target.dtype.name in UNPACKED:
        raise ValueError(
            f"{what} has dtype {target.dtype}, which takes a byte for each element:"
            f" {UNPACKED[target.dtype.name]} is read into packed uint8"
        )


def _described(target: Any, what: str) -> tuple[int, tuple[int, ...], tuple[int, ...] | None, int, str]:
    """Return address, shape, strides in bytes, bytes per element, and the format's dtype.

    The strides are None for an array in C order.
    """
    try:
        if is_torch(target):
            _check_torch(target, what)
            itemsize = target.element_size()
            ordered = target.is_contiguous()
            strides = None if ordered else tuple(step * itemsize for step in target.stride())
            dtype = format_name(target.dtype)
            return target.data_ptr(), tuple(target.shape), strides, itemsize, dtype
        if is_numpy(target):
            _check_numpy(target, what)
            # A subclass may report any address. asarray() returns the plain array.
            array = sys.modules["numpy"].asarray(target)
            address = array.__array_interface__["data"][0]
            strides = None if array.flags.c_contiguous else array.strides
            dtype = format_name(array.dtype)
            return address, array.shape, strides, array.itemsize, dtype
    except SafetensorError:
        raise ValueError(f"{what} has dtype {target.dtype}, which no file holds") from None
    raise TypeError(f"{what} is {type(target).__name__}: numpy arrays and torch tensors can be read into")


def _packed(shape: Sequence[int], dtype: str) -> tuple[int, ...]:
    """Return the shape of a result. For a packed dtype the last dimension counts bytes."""
    if dtype not in PACKED or not shape:
        return tuple(shape)
    return (*shape[:-1], shape[-1] * PACKED[dtype] // 8)


def to_target(target: Any, name: str, dtype: str, shape: Sequence[int]) -> Target:
    """Return the memory for a result of this dtype, with `shape` in elements.

    Raises TypeError for an object that cannot be read into, ValueError for an array that does not
    fit.
    """
    what = f"out[{name!r}]"
    address, own_shape, strides, itemsize, own_dtype = _described(target, what)
    if own_dtype != dtype and not (dtype in PACKED and own_dtype == "U8"):
        raise ValueError(f"{what} has dtype {own_dtype}, the result {dtype}")
    wanted = _packed(shape, dtype)
    if wanted != own_shape:
        raise ValueError(f"{what} has shape {own_shape}, the result {wanted}")
    if strides is None:
        return address, math.prod(own_shape) * itemsize, None, target
    if any(stride < 0 for stride in strides):
        raise ValueError(f"{what} has a negative stride")
    if dtype in PACKED:
        raise ValueError(f"{what} is not contiguous, which {dtype} must be")
    # The plan refuses elements that share memory.
    size = itemsize + sum((n - 1) * step for n, step in zip(own_shape, strides, strict=True))
    return address, size, strides, target
