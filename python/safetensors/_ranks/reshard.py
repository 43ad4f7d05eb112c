"""Computes the part of a tensor that a process has, and the pieces of other parts that it needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .. import _native
from .boxes import Box

__all__ = ["Transfer", "reshard", "shard_box"]


class Transfer(NamedTuple):
    """The elements that one wanted box takes from one saved box.

    `source`, `target`: the positions of the boxes in their lists. `in_source`, `in_target`: the
    elements, as a box of the saved part and as a box of the wanted part. Index 0 is the first index of
    the part.
    """

    source: int
    target: int
    in_source: Box
    in_target: Box


def shard_box(
    shape: Sequence[int], mesh: Sequence[int], rank: int, placements: Iterable[int | None]
) -> Box:
    """Return the box of a tensor that one rank of a mesh has.

    `shape`: the shape of the tensor. `mesh`: the shape of the mesh. Its ranks are in C order, as those
    of `init_device_mesh` of torch. `placements`: for each dimension of the mesh the dimension of the
    tensor that it cuts (`Shard` of torch), or None if its ranks have the same elements (`Replicate`).

    The rule is that of DTensor: n indices are cut into chunks of ceil(n / parts). So the last rank may
    have fewer, and ranks after the last index have an empty box. If two dimensions of the mesh cut one
    dimension of the tensor, the second one cuts the part that the first one left.
    Raises SafetensorError for a rank outside of the mesh and for a dimension that the tensor lacks,
    OverflowError for a negative size.
    """
    return Box(*_native._shard_box(shape, mesh, rank, placements))


def reshard(
    shape: Sequence[int],
    saved: Sequence[tuple[Sequence[int], Sequence[int]]],
    wanted: Sequence[tuple[Sequence[int], Sequence[int]]],
) -> list[Transfer]:
    """Return the transfers from the saved parts of a tensor to the wanted parts.

    `shape`: the shape of the whole tensor. `saved`, `wanted`: boxes, as `shard_box` returns, or other
    pairs of offsets and sizes. Each element of a wanted box is in one transfer. If several saved boxes
    have an element, the first one gives it. The transfers are sorted by target, then by source.
    Raises SafetensorError for a box that ends outside of the tensor, for a wanted box with elements that
    no saved box has, and for too many saved boxes that overlap without being equal.
    """
    return [
        Transfer(source, target, Box(*in_source), Box(*in_target))
        for source, target, in_source, in_target in _native._reshard(shape, saved, wanted)
    ]
