"""Boxes of elements: how the chunks of a saved tensor lie in the whole tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Box", "check_cover"]


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
        ends = (
            min(a + n, b + m) for a, n, b, m in zip(*self, *other, strict=True)
        )
        sizes = tuple(end - offset for offset, end in zip(offsets, ends, strict=True))
        return Box(offsets, sizes) if all(size > 0 for size in sizes) else None


def check_cover(boxes: Sequence[Box], shape: tuple[int, ...]) -> str | None:
    """Return a sentence about boxes that overlap or leave elements out, or None if each is held once.

    The boxes lie inside of the shape. Disjoint boxes with the right number of elements leave none out.
    """
    held = sum(box.elements for box in boxes)
    if len(boxes) > 1 and (pair := _meeting(boxes, shape)) is not None:
        return f"the chunks at {list(pair[0].offsets)} and {list(pair[1].offsets)} overlap"
    if held != math.prod(shape):
        return f"its chunks hold {held} elements, and its shape {list(shape)} has {math.prod(shape)}"
    return None


def _meeting(boxes: Sequence[Box], shape: tuple[int, ...]) -> tuple[Box, Box] | None:
    """Return two boxes that have an element in common, by a sweep along one dimension."""
    if not shape:
        return boxes[0], boxes[1]
    # The sweep compares only boxes that are open at the same time: take the dimension with most cuts.
    sweep = max(range(len(shape)), key=lambda dim: len({box.offsets[dim] for box in boxes}))
    opened: list[Box] = []
    for box in sorted(boxes, key=lambda box: box.offsets[sweep]):
        begin = box.offsets[sweep]
        opened = [other for other in opened if other.offsets[sweep] + other.sizes[sweep] > begin]
        for other in opened:
            if box.common(other) is not None:
                return other, box
        opened.append(box)
    return None
