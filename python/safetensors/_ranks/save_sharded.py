"""Saves the tensors of many ranks: a model or a dict of DTensors, without torch.distributed.checkpoint.

Each rank tells rank 0 which boxes of elements its placements give it, and which ones it would write: those
that no rank with a lower coordinate in the mesh has. Rank 0 checks that each element has one writer,
creates the files, and invites the others. Ranks exchange only texts, and never send elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.distributed.tensor import DTensor, Replicate

from .._arrays.dtypes import CASTABLE, format_name
from .._arrays.torch_dtypes import float_dtype
from .._base.options import Progress
from .._native import SafetensorError
from .._read.checkpoint import DEFAULT_BUDGET
from .._types import Durability
from .._write.save_checkpoint import DEFAULT_SHARD_SIZE, SaveOptions
from .agreement import agree, from_first, gather, is_alone
from .boxes import Box, check_cover
from .part_writer import Invitation, PartWriter, Specs, budget_of, check_savable, spec_of
from .shards import local_of
from .stored import Path

__all__ = ["save_sharded"]


class _Held(NamedTuple):
    """A tensor as a rank describes it. `boxes`: those that it writes. None: a plain tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    boxes: list[Box] | None


class _Orders(NamedTuple):
    """The message of rank 0 to all others: how to join, and who writes."""

    invitation: Invitation | None
    # The writer of each plain tensor that rank 0 does not have.
    plain_writers: dict[str, int]
    # Boxes that a lower rank writes, too: per rank, names and ordinals of boxes.
    repeated: dict[int, set[tuple[str, int]]]


@dataclass(slots=True)
class _Source:
    """A tensor of this rank, and its boxes with their offsets in the local tensor."""

    held: _Held
    local: torch.Tensor
    boxes: list[tuple[Box, tuple[int, ...]]]


def save_sharded(
    target: torch.nn.Module | Mapping[str, Any], path: Path, *, max_shard_size: int | str = DEFAULT_SHARD_SIZE,
    dtype: Any = None, metadata: Mapping[str, str] | None = None, index_metadata: Mapping[str, Any] | None = None,
    new_folder: bool = False, remove_old_files: bool = True, durability: Durability = "full",
    memory_limit: int | str = DEFAULT_BUDGET, progress: bool | Progress | None = False, process_group: Any = None,
) -> None:
    """Save the tensors of many ranks as one checkpoint. Each rank writes only its own elements.

    `target`: a module or a dict of names to tensors, such as a `state_dict()`. Each element of a
    DTensor is written once: by the rank with the lowest coordinate in the mesh. A plain tensor is
    written by the lowest rank that has it, and should be the same on all ranks. Tensors that share
    memory (tied weights) are written once per name.
    `path`: the folder. Its parent must exist. The path of rank 0 is used.
    `dtype`: the dtype that floats are cast to. `max_shard_size`, `metadata`, `index_metadata`,
    `new_folder`, `remove_old_files`, `durability`: as in `safetensors.save`. The values of rank 0
    are used, except `dtype`, which must be the same on all ranks.
    `process_group`: the ranks that call the function, None for all. Each of them must call it.
    `memory_limit`, `progress`: as in StorageWriter.

    Names are in the order of the state dict of rank 0, then of the next ranks. Raises RankError on all
    ranks if one of them fails. With one rank, raises its error: SafetensorError, OSError, TypeError,
    ValueError. After an error, the old checkpoint is untouched, and no new file is left.
    """
    options = SaveOptions(
        max_shard_size, metadata, index_metadata, new_folder, remove_old_files, durability, progress, memory_limit
    )
    sources: dict[str, _Source] = {}
    fault: BaseException | None = None
    alone = is_alone(process_group)
    try:
        budget_of(options)
        sources = _sources(target, dtype)
    except BaseException as error:
        fault = error
    agree(process_group, fault)
    _Saving(process_group, alone).run(sources, path, options)


class _Saving:
    """The part of this rank. Every collective is entered by all ranks, or by none."""

    def __init__(self, group: Any, alone: bool) -> None:
        self._group = group
        self._alone = alone
        self._rank = 0 if alone else torch.distributed.get_rank(group)
        self._part: PartWriter | None = None

    def run(self, sources: dict[str, _Source], path: Path, options: SaveOptions) -> None:
        try:
            given = gather(self._group, {name: source.held for name, source in sources.items()})
            orders = from_first(self._group, lambda: self._create(given, path, options))
            receipt: str | None = None
            fault: BaseException | None = None
            try:
                receipt = self._write(sources, orders, options)
            except BaseException as error:
                fault = error
            agree(self._group, fault)
            receipts = gather(self._group, receipt)
            from_first(self._group, lambda: self._commit(receipts))
        finally:
            if self._part is not None:
                self._part.close()

    def _create(self, given: list[dict[str, _Held]], path: Path, options: SaveOptions) -> _Orders:
        specs, plain_writers, repeated = _planned(given)
        self._part = PartWriter.create(path, specs, options, alone=self._alone)
        return _Orders(None if self._alone else self._part.invitation(), plain_writers, repeated)

    def _write(self, sources: dict[str, _Source], orders: _Orders, options: SaveOptions) -> str | None:
        """Write the boxes of this rank. Returns the receipt, or None on rank 0."""
        chosen = self._chosen(sources, orders)
        if self._rank != 0:
            assert orders.invitation is not None
            total = sum(box.elements * source.held.dtype.itemsize for _, source, box, _ in chosen)
            self._part = PartWriter.join(orders.invitation, options, total)
        assert self._part is not None
        for name, source, box, place in chosen:
            data = source.local
            for dim, (begin, size) in enumerate(zip(place, box.sizes, strict=True)):
                data = data.narrow(dim, begin, size)
            self._part.write(name, box.offsets, data, source.held.dtype)
        return None if self._rank == 0 else self._part.receipt()

    def _chosen(self, sources: dict[str, _Source], orders: _Orders) -> list[tuple[str, _Source, Box, tuple[int, ...]]]:
        repeated = orders.repeated.get(self._rank, set())
        return [
            (name, source, box, place)
            for name, source in sources.items()
            if source.held.boxes is not None or orders.plain_writers.get(name, 0) == self._rank
            for ordinal, (box, place) in enumerate(source.boxes)
            if (name, ordinal) not in repeated
        ]

    def _commit(self, receipts: Sequence[str | None]) -> None:
        assert self._part is not None
        self._part.commit(receipt for receipt in receipts if receipt is not None)


def _sources(target: Any, dtype: Any) -> dict[str, _Source]:
    """Return the tensors of this rank. Raises SafetensorError, TypeError."""
    if not isinstance(target, (torch.nn.Module, Mapping)):
        raise TypeError(f"target is {type(target).__name__}: give a module or a dict")
    cast = float_dtype(dtype)
    state = target.state_dict() if isinstance(target, torch.nn.Module) else target
    return {name: _source(name, tensor, cast) for name, tensor in state.items()}


def _source(name: str, tensor: Any, cast: torch.dtype | None) -> _Source:
    if not isinstance(tensor, torch.Tensor):
        raise SafetensorError(
            f"cannot save {name!r}: it is {type(tensor).__name__}, and a safetensors file holds tensors only"
        )
    if hasattr(tensor, "local_shards"):
        raise SafetensorError(f"cannot save {name!r}: it is a ShardedTensor (save it by StorageWriter and dcp.save)")
    check_savable(name, tensor)
    dtype, shape = spec_of(name, tensor.dtype, tensor.shape)
    if cast is not None and format_name(dtype) in CASTABLE:
        dtype = cast
    if not isinstance(tensor, DTensor):
        whole = Box((0,) * len(shape), shape)
        return _Source(_Held(dtype, shape, None), tensor, [(whole, whole.offsets)])
    shares, local = local_of(tensor, shape, name)
    coordinate = tensor.device_mesh.get_coordinate()
    if shares is None or coordinate is None:
        return _Source(_Held(dtype, shape, []), local, [])
    pairs = zip(coordinate, tensor.placements, strict=True)
    is_copy = any(index for index, placement in pairs if isinstance(placement, Replicate))
    boxes = [] if is_copy else list(shares.boxes())
    return _Source(_Held(dtype, shape, [box for box, _ in boxes]), local, boxes)


def _planned(given: list[dict[str, _Held]]) -> tuple[Specs, dict[str, int], dict[int, set[tuple[str, int]]]]:
    """Return the tensors, and the writers of those that do not follow from the rules of one rank.

    Raises SafetensorError unless all ranks describe a tensor alike, and each element has a writer.
    """
    specs: Specs = {}
    first_ranks: dict[str, int] = {}
    boxes: dict[str, dict[Box, int]] = {}
    repeated: dict[int, set[tuple[str, int]]] = {}
    for rank, tensors in enumerate(given):
        for name, held in tensors.items():
            first = first_ranks.setdefault(name, rank)
            if (found := _difference(given[first][name], held)) is not None:
                raise SafetensorError(f"{name!r} {found[0]} on rank {first}, and {found[1]} on rank {rank}")
            specs[name] = held.dtype, held.shape
            for ordinal, box in enumerate(held.boxes or ()):
                if boxes.setdefault(name, {}).setdefault(box, rank) != rank:
                    repeated.setdefault(rank, set()).add((name, ordinal))
    plain_writers = {}
    for name, rank in first_ranks.items():
        if given[rank][name].boxes is None:
            if rank:
                plain_writers[name] = rank
        elif (fault := check_cover(list(boxes.get(name, {})), specs[name][1])) is not None:
            raise SafetensorError(
                f"the ranks do not hold {name!r} once: {fault} (are all ranks of its mesh in the process group?)"
            )
    return specs, plain_writers, repeated


def _difference(one: _Held, other: _Held) -> tuple[str, str] | None:
    """Return how two ranks describe a tensor, if they differ."""
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return (f"has dtype {one.dtype} and shape {list(one.shape)}", f"{other.dtype} and {list(other.shape)}")
    if (one.boxes is None) != (other.boxes is None):
        kinds = "is a plain tensor", "a DTensor"
        return kinds if one.boxes is None else ("is a DTensor", "a plain tensor")
    return None
