"""Which elements of a tensor a rank holds: placements of torch as ranges of indices.

Each mesh dimension cuts the indices that the rank still has, from the first mesh dimension to the last,
as torch does. `_StridedShard` takes a range out of each of several parts. So the result is a list of
ranges per dimension of the tensor, and most lists have one range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.placement_types import _StridedShard

from .._native import SafetensorError
from .boxes import Box

__all__ = ["Shares", "local_of", "shares_of"]

_Ranges = list[tuple[int, int]]  # [begin, end)


class Shares(NamedTuple):
    """The ranges of indices that a rank holds, per dimension of the tensor."""

    ranges: tuple[_Ranges, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the local tensor."""
        return tuple(sum(end - begin for begin, end in ranges) for ranges in self.ranges)

    def boxes(self) -> Iterator[tuple[Box, tuple[int, ...]]]:
        """Yield each box of elements, and its offsets in the local tensor."""
        located = []
        for ranges in self.ranges:
            offset, found = 0, []
            for begin, end in ranges:
                if end > begin:
                    found.append((begin, end - begin, offset))
                offset += end - begin
            located.append(found)
        for chosen in product(*located):
            box = Box(tuple(part[0] for part in chosen), tuple(part[1] for part in chosen))
            yield box, tuple(part[2] for part in chosen)


def _cut(ranges: _Ranges, count: int, index: int) -> _Ranges:
    """Return one of `count` parts of the indices. The parts have one size, except the last ones."""
    length = sum(end - begin for begin, end in ranges)
    size = -(-length // count)
    low, high = min(index * size, length), min((index + 1) * size, length)
    found, position = [], 0
    for begin, end in ranges:
        first = begin + max(0, low - position)
        last = min(end, begin + high - position)
        if first < last:
            found.append((first, last))
        position += end - begin
    return found


def shares_of(shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Any], name: str) -> Shares | None:
    """Return the indices that this rank holds, or None for a rank outside of the mesh.

    Raises SafetensorError for Partial, for an unknown placement, and for a dimension that the tensor
    lacks. `name`: the tensor, for errors.
    """
    coordinate = mesh.get_coordinate()
    if len(placements) != mesh.ndim:
        raise SafetensorError(f"{name!r} has {len(placements)} placements, and its mesh {mesh.ndim} dimensions")
    ranges: list[_Ranges] = [[(0, size)] for size in shape]
    for mesh_dim, placement in enumerate(placements):
        if isinstance(placement, Replicate):
            continue
        if not isinstance(placement, (Shard, _StridedShard)):
            raise SafetensorError(
                f"{name!r} has the placement {placement!r}, which no checkpoint holds: expected Shard or Replicate"
            )
        dim = placement.dim + (len(ranges) if placement.dim < 0 else 0)
        if not 0 <= dim < len(ranges):
            raise SafetensorError(f"{name!r} has {len(ranges)} dimensions, and the placement {placement!r}")
        if coordinate is None:
            continue
        count, index = mesh.size(mesh_dim), coordinate[mesh_dim]
        if isinstance(placement, _StridedShard):
            factor = int(placement.split_factor)
            parts = [_cut(ranges[dim], factor, part) for part in range(factor)]
            ranges[dim] = [found for part in parts for found in _cut(part, count, index)]
        else:
            ranges[dim] = _cut(ranges[dim], count, index)
    return None if coordinate is None else Shares(tuple(_joined(part) for part in ranges))


def local_of(tensor: DTensor, shape: Sequence[int], name: str) -> tuple[Shares | None, torch.Tensor]:
    """Return the indices that this rank holds, as `shares_of`, and its local tensor, whose shape is checked."""
    shares = shares_of(shape, tensor.device_mesh, tensor.placements, name)
    with torch.no_grad():
        local = tensor.to_local()
    if shares is not None and tuple(local.shape) != shares.shape:
        raise SafetensorError(
            f"the local part of {name!r} has shape {list(local.shape)}, and its placements give {list(shares.shape)}"
        )
    return shares, local


def _joined(ranges: _Ranges) -> _Ranges:
    """Join ranges that follow each other."""
    joined: _Ranges = []
    for begin, end in ranges:
        if joined and joined[-1][1] == begin:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return joined
