"""Finds the rows that a torch index touches, so that only these are read from the file."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["bounding_rows", "check"]

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8)


def _as_tensor(item: Any) -> torch.Tensor | None:
    if isinstance(item, torch.Tensor):
        return item
    if not isinstance(item, list) or any(hasattr(element, "__len__") for element in item):
        return None  # torch takes a list of lists for a tuple of lists
    try:
        return torch.as_tensor(item, device="cpu")  # and not on the default device
    except (TypeError, ValueError, RuntimeError):  # torch decides what such a list means
        return None


def bounding_rows(index: Any, rows: int) -> tuple[int, int, Any] | None:
    """Return (begin, end, index into these rows) for an index whose first item selects rows.

    Returns None for any other index, and for an index that torch will refuse.
    """
    items = index if isinstance(index, tuple) else (index,)
    picked = _as_tensor(items[0]) if items else None
    if picked is None or picked.device.type != "cpu":
        return None
    if picked.dtype == torch.bool:
        if picked.shape != (rows,):
            return None
        touched = picked.nonzero()
    elif picked.dtype in _INTEGERS:
        picked = picked.to(torch.int64)
        touched = picked = torch.where(picked < 0, picked + rows, picked)
    else:
        return None
    if touched.numel() == 0:
        return None
    begin, end = int(touched.min()), int(touched.max()) + 1
    if begin < 0 or end > rows:
        return None
    within = picked[begin:end] if picked.dtype == torch.bool else picked - begin
    return begin, end, (within, *items[1:])


def check(index: Any, shape: tuple[int, ...]) -> None:
    """Raise the error of torch if the index is invalid for this shape. No tensor is read."""
    torch.empty((), dtype=torch.uint8, device="cpu").expand(shape)[index]
