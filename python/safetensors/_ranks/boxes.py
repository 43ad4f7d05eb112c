"""Boxes of elements: how the chunks of a saved tensor lie in the whole tensor."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Box", "check_cover"]

_PRIME = 2**127 - 1
_MAX_COMPARED = 1 << 16  # pairs of boxes


class Box(NamedTuple):
    """A range of indices per dimension of a tensor.

    `offsets`: the first index per dimension. `sizes`: the number of indices. A box with a 0 is empty.
    """

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def slices(self) -> tuple[slice, ...]:
        """The index of the elements, for arrays, `get_slice` and `slices` of `load`."""
        pairs = zip(self.offsets, self.sizes, strict=True)
        return tuple(slice(offset, offset + size) for offset, size in pairs)

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.sizes)

    def common(self, other: Box) -> Box | None:
        """Return the elements that both boxes hold, or None."""
        offsets = tuple(map(max, self.offsets, other.offsets))
        ends = (min(a + n, b + m) for a, n, b, m in zip(*self, *other, strict=True))
        sizes = tuple(end - offset for offset, end in zip(offsets, ends, strict=True))
        return Box(offsets, sizes) if all(size > 0 for size in sizes) else None


def check_cover(boxes: Sequence[Box], shape: tuple[int, ...]) -> str | None:
    """Return a sentence about boxes that overlap or leave elements out, or None if each is held once.

    The boxes lie inside of the shape. The work is one multiplication per box and dimension, and one
    sort, whatever the positions of the boxes. So a hostile file cannot cause more work.
    """
    held, whole = sum(box.elements for box in boxes), math.prod(shape)
    if held == whole and _holds_once(boxes, shape):
        return None
    if (pair := _overlapping(boxes, shape)) is not None:
        return f"the chunks at {list(pair[0].offsets)} and {list(pair[1].offsets)} overlap"
    if held != whole:
        return f"its chunks hold {held} elements, and its shape {list(shape)} has {whole}"
    return "its chunks overlap"


def _holds_once(boxes: Sequence[Box], shape: tuple[int, ...]) -> bool:
    """Return whether each element of the shape is in one box.

    Let x be an unknown per dimension and index. A box from b to e has the product of (x[e] - x[b])
    over all dimensions. The sum over the boxes is the product of the shape, as a polynomial, if and
    only if each element is in one box: both say where the number of boxes changes. The polynomials
    are compared at a secret random point of a prime field. Different ones have the same value there
    with a probability of at most dimensions / 2**127 (Schwartz and Zippel).
    """
    products = [1] * len(boxes)
    whole = 1
    for dim, size in enumerate(shape):
        values: dict[int, int] = {}
        for index, (offsets, sizes) in enumerate(boxes):
            begin = offsets[dim]
            factor = _value(values, begin + sizes[dim]) - _value(values, begin)
            products[index] = products[index] * factor % _PRIME
        whole = whole * (_value(values, size) - _value(values, 0)) % _PRIME
    return sum(products) % _PRIME == whole


def _value(values: dict[int, int], index: int) -> int:
    if index not in values:
        values[index] = secrets.randbelow(_PRIME)
    return values[index]


def _overlapping(boxes: Sequence[Box], shape: tuple[int, ...]) -> tuple[Box, Box] | None:
    """Return two boxes that have an element in common, or None after _MAX_COMPARED comparisons.

    It only names a fault. A sweep along the dimension with most cuts compares boxes that are open at
    the same time.
    """
    cuts = [len({box.offsets[dim] for box in boxes}) for dim in range(len(shape))]
    sweep = cuts.index(max(cuts)) if cuts else None
    opened: list[Box] = []
    compared = 0
    for box in boxes if sweep is None else sorted(boxes, key=lambda box: box.offsets[sweep]):
        compared += len(opened)
        if compared > _MAX_COMPARED:
            return None
        if sweep is not None:
            begin = box.offsets[sweep]
            opened = [other for other in opened if other.offsets[sweep] + other.sizes[sweep] > begin]
        for other in opened:
            if box.common(other) is not None:
                return other, box
        opened.append(box)
    return None
