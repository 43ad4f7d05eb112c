"""Loads the shards of this rank: into the tensors of a model, or into new DTensors.

Each rank finds the boxes of elements that its placements give it, and reads them by one read plan.
Ranks communicate only to tell each other about errors, before and after reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import sub
from typing import Any, overload

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate
from torch.nn.modules.module import _IncompatibleKeys

from .._arrays.dtypes import CASTABLE
from .._arrays.torch_dtypes import float_dtype
from .._base.options import Progress, ending, start_read
from .._models.pieces import Piece, read_pieces
from .._native import SafetensorError, _matching
from .._read.checkpoint import DEFAULT_BUDGET
from .._read.requests import missing
from .._types import Cache
from .agreement import agree
from .shards import Shares, local_of, shares_of
from .stored import Path, Stored, StoredTensor

__all__ = ["Placements", "load_sharded"]

Placements = Mapping[str, "Placement | Sequence[Placement]"]
_Made = tuple[list[Piece], Any]  # the pieces to read, and the result


@overload
def load_sharded(
    target: torch.nn.Module | Mapping[str, Any], path: Path, *, strict: bool = True, process_group: Any = None, threads: int = 0,
    memory_limit: int | str = DEFAULT_BUDGET, cache: Cache = "auto", progress: bool | Progress | None = False,
) -> _IncompatibleKeys: ...
@overload
def load_sharded(
    target: None, path: Path, *, mesh: DeviceMesh, placements: Placements, dtype: Any = None, process_group: Any = None, threads: int = 0,
    memory_limit: int | str = DEFAULT_BUDGET, cache: Cache = "auto", progress: bool | Progress | None = False,
) -> dict[str, DTensor]: ...


def load_sharded(
    target: torch.nn.Module | Mapping[str, Any] | None, path: Path, *, mesh: DeviceMesh | None = None,
    placements: Placements | None = None, strict: bool = True, dtype: Any = None, process_group: Any = None,
    threads: int = 0, memory_limit: int | str = DEFAULT_BUDGET, cache: Cache = "auto",
    progress: bool | Progress | None = False,
) -> Any:
    """Load the shards of this rank. Each rank reads only the bytes of its own shards.

    `target`: a module, or a dict of names to tensors, such as a `state_dict()`. The local part of a
    DTensor gets the elements that its placements give it. Other tensors get all elements. Floats
    are cast to the dtype of the tensor. The result has `missing_keys` and `unexpected_keys`.
    `strict`: raise SafetensorError if the names of the target and the checkpoint differ.

    With None as `target`, the function makes new tensors on the device mesh `mesh`. `placements` is
    a dict of names and patterns such as "*.weight". Each value is a list with one placement per
    mesh dimension. It may be a single placement if the mesh has one dimension. A name wins over
    patterns. Among patterns, the first match wins. Tensors without a match are replicated. `dtype`:
    the dtype that floats are cast to. The result is a dict of names to DTensors.

    `path`: a file, an index, a folder that holds one of these, or a folder that
    `HuggingFaceStorageWriter(save_distributed=True)` of torch left.
    `process_group`: the ranks that call the function, None for all. Each of them must call it.
    `threads`, `memory_limit`, `cache`, `progress`: as in StorageReader.

    Raises RankError on all ranks if one of them fails. With one rank, raises its error:
    SafetensorError, OSError, MissingTensorError for a pattern without a match, TypeError. If reading
    has begun, some tensors have their new values, and others do not. Hooks of the model do not run.
    """
    made: _Made = [], None
    stored: Stored | None = None
    fault: BaseException | None = None
    try:
        # Raises the errors of the options before anything is opened. The bar begins after the ranks agree.
        start_read(threads, memory_limit, cache, None if progress is True else progress)
        stored = Stored.open(path)
        _check_arguments(target, mesh, placements, dtype)
        if target is None:
            made = _new(stored, mesh, placements, dtype)
        else:
            made = _into(stored, target.state_dict() if isinstance(target, torch.nn.Module) else target, strict)
    except BaseException as error:
        fault = error
    try:
        agree(process_group, fault)
        try:
            with ending(start_read(threads, memory_limit, cache, progress)) as options:
                read_pieces(made[0], None, options)
        except BaseException as error:
            fault = error
        agree(process_group, fault)
    finally:
        if stored is not None:
            stored.close()
    return made[1]


def _check_arguments(target: Any, mesh: Any, placements: Any, dtype: Any) -> None:
    if target is None:
        if not isinstance(mesh, DeviceMesh):
            raise TypeError(f"mesh is {type(mesh).__name__}: without a target, give a DeviceMesh")
        if not isinstance(placements, Mapping):
            raise TypeError(f"placements is {type(placements).__name__}: give a dict of patterns")
    elif not isinstance(target, (torch.nn.Module, Mapping)):
        raise TypeError(f"target is {type(target).__name__}: give a module, a dict or None")
    elif not (mesh is None and placements is None and dtype is None):
        raise TypeError("mesh, placements and dtype are those of the target: give None as the target")


def _into(stored: Stored, state: Mapping[str, Any], strict: bool) -> _Made:
    """Return the pieces that fill the tensors of a state dict."""
    missing = [n for n, t in state.items() if n not in stored.tensors or not isinstance(t, torch.Tensor)]
    unexpected = [name for name in stored.tensors if name not in state]
    if strict and (missing or unexpected):
        parts = [f"the checkpoint lacks {missing}"] if missing else []
        parts += [f"the target lacks {unexpected}"] if unexpected else []
        raise SafetensorError(f"the names differ: {', '.join(parts)} (strict=False accepts this)")
    pieces: list[Piece] = []
    for name, tensor in state.items():
        if name in stored.tensors and isinstance(tensor, torch.Tensor):
            pieces += _pieces_into(stored.tensors[name], tensor)
    return pieces, _IncompatibleKeys(missing, unexpected)


def _pieces_into(stored: StoredTensor, tensor: torch.Tensor) -> Iterator[Piece]:
    if tuple(tensor.shape) != stored.shape:
        raise SafetensorError(
            f"{stored.name!r} has shape {list(tensor.shape)}, and {list(stored.shape)} in the checkpoint"
        )
    shares: Shares | None = Shares(tuple([(0, size)] for size in stored.shape))
    local = tensor
    if isinstance(tensor, DTensor):
        shares, local = local_of(tensor, stored.shape, stored.name)
    if shares is None:
        return
    if local.is_meta:
        raise SafetensorError(
            f"{stored.name!r} is on the meta device: give it memory first, as by"
            ' model.to_empty(device="cpu")'
        )
    yield from _pieces(stored, shares, local.detach())


def _pieces(stored: StoredTensor, shares: Shares, local: torch.Tensor) -> Iterator[Piece]:
    """Yield the pieces of a local tensor: one per box and per file that holds elements of the box."""
    for box, place in shares.boxes():
        for part, common in stored.parts_of(box):
            target = local
            for dim, (offset, size) in enumerate(zip(*common, strict=True)):
                target = target.narrow(dim, place[dim] + offset - box.offsets[dim], size)
            offsets = tuple(map(sub, common.offsets, part.box.offsets))
            yield stored.piece(part, offsets, target, stored.name)


def _new(stored: Stored, mesh: Any, placements: Any, dtype: Any) -> _Made:
    """Return the pieces that fill new DTensors, and the DTensors."""
    cast = float_dtype(dtype)
    chosen = _chosen(placements, mesh, stored)
    pieces: list[Piece] = []
    made: dict[str, DTensor] = {}
    for tensor in stored:
        own = cast if cast is not None and tensor.wire in CASTABLE else tensor.torch_dtype()
        given = chosen.get(tensor.name) or [Replicate()] * mesh.ndim
        shares = shares_of(tensor.shape, mesh, given, tensor.name)
        shape = (0,) if shares is None else shares.shape  # a rank outside of the mesh holds nothing
        local = torch.empty(shape, dtype=own, device=mesh.device_type)
        if shares is not None:
            pieces += _pieces(tensor, shares, local)
        whole = torch.empty(tensor.shape, dtype=own, device="meta")
        made[tensor.name] = DTensor.from_local(
            local, mesh, given, run_check=False, shape=whole.shape, stride=whole.stride()
        )
    return pieces, made


def _chosen(placements: Placements, mesh: DeviceMesh, stored: Stored) -> dict[str, list[Placement]]:
    """Return the placements of tensors. A name wins over patterns, and the first pattern over the next ones."""
    by_name: dict[str, list[Placement]] = {}
    by_pattern: dict[str, list[Placement]] = {}
    for key, given in placements.items():
        each = _one_per_dimension(key, given, mesh)
        if key in stored.tensors:
            by_name[key] = each
            continue
        matches = _matching(key, stored.tensors)
        if not matches:
            raise missing(f"placements: no tensor matches {key!r}", key)
        for name in matches:
            by_pattern.setdefault(name, each)
    return {**by_pattern, **by_name}


def _one_per_dimension(key: str, given: Any, mesh: DeviceMesh) -> list[Placement]:
    each = [given] if isinstance(given, Placement) else list(given)
    if len(each) != mesh.ndim or not all(isinstance(one, Placement) for one in each):
        raise SafetensorError(
            f"placements[{key!r}] is {given!r}, expected a placement for each of the {mesh.ndim} mesh dimensions"
        )
    return each
