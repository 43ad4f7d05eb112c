"""Reads pieces of tensors into memory of torch: by a read plan where the plan can, else by a stream.

The plan writes straight into tensors on the CPU, with strides if need be, and casts between floats on
the way. It makes new memory for pieces without a target. torch copies the other pieces out of a stream:
those on devices, and those with a conversion that the plan lacks. Tensors that overlap are read one
after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from .._arrays.dtypes import can_read_as, format_name
from .._arrays.sharing import overlapping_chains
from .._arrays.targets import reach, to_target
from .._base.options import ReadArguments, part_of
from .._native import SafetensorError
from .._read.checkpoint import DEFAULT_BUDGET, Checkpoint
from .._types import Request, Target

__all__ = ["Piece", "overlapping", "read_pieces"]

_increment_version: Any = getattr(torch.autograd.graph, "increment_version", None)  # newer torch


@dataclass(slots=True)
class Piece:
    """Elements of a tensor of a checkpoint, and the memory for them.

    `wire`: the format's dtype. `dtype`: that of the memory. `offsets`: the first element, as torch counts,
    or None for the whole tensor. `target`: memory with the shape of the elements, or None for new memory
    on the CPU, which only the plan makes. Pieces with the same `owner` share no element of memory.
    A model has thousands of pieces. Fewer objects per piece start the garbage collector less often.
    """

    checkpoint: Checkpoint
    name: str
    wire: str
    nbytes: int  # of the elements in the file
    dtype: torch.dtype
    offsets: tuple[int, ...] | None
    target: torch.Tensor | None
    owner: Any

    def index(self) -> tuple[slice, ...] | None:
        """Return the index of the elements in the file. None: the whole tensor."""
        if self.offsets is None or self.target is None:
            return None
        found = [slice(o, o + n) for o, n in zip(self.offsets, self.target.shape, strict=True)]
        if self.wire == "F4" and found:  # torch counts pairs
            found[-1] = slice(2 * found[-1].start, 2 * found[-1].stop)
        return tuple(found)

    def request(self) -> Request | None:
        """Return how the plan reads the piece, or None if torch must copy it."""
        try:
            wire = format_name(self.dtype)
        except SafetensorError:
            return None
        if not can_read_as(self.wire, wire):
            return None
        memory = None
        if self.target is not None and (memory := _memory(self.target, self.name, wire)) is None:
            return None
        return self.name, self.index(), wire if wire != self.wire else None, memory


def _memory(tensor: torch.Tensor, name: str, wire: str) -> Target | None:
    """Return how a plan writes into the memory of a tensor, or None if torch must copy."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or torch._debug_has_internal_overlap(tensor):
        return None
    shape = list(tensor.shape)
    if wire == "F4" and shape:
        shape[-1] *= 2
    try:
        return to_target(tensor, name, wire, shape)
    except ValueError:  # tensors on devices, conjugated views, parts of a graph and the like
        return None


def _span(tensor: torch.Tensor) -> tuple[str, int, int] | None:
    """Return the device and the range of addresses, or None for a tensor without memory."""
    try:
        begin = tensor.data_ptr()
    except RuntimeError:
        return None
    if tensor.numel() == 0 or begin == 0:
        return None
    device = "cpu" if tensor.is_cpu else str(tensor.device)
    return device, begin, begin + reach(tensor) * tensor.element_size()


def overlapping(tensors: Sequence[torch.Tensor | None], owners: Sequence[Any]) -> set[Any]:
    """Return the owners of tensors that share memory with a tensor of another owner.

    Compares ranges of addresses, so two tensors with strides may count that have no element in
    common. None is a tensor without memory.
    """
    spans: dict[str, list[tuple[int, int, int]]] = {}
    for index, tensor in enumerate(tensors):
        if tensor is not None and (span := _span(tensor)) is not None:
            spans.setdefault(span[0], []).append((*span[1:], index))
    found: set[Any] = set()
    for of_device in spans.values():
        for chain in overlapping_chains(of_device):
            together = {owners[index] for index in chain}
            found |= together if len(together) > 1 else set()
    return found


def _bump_version(tensor: torch.Tensor) -> None:
    """Tell autograd that the values have changed."""
    if tensor.is_inference():
        return
    if _increment_version is not None:
        _increment_version(tensor)
        return
    with torch.no_grad():  # autograd counts a change of a part without elements, too
        flat = tensor.reshape(-1) if tensor.is_contiguous() else tensor
        flat.narrow(0, 0, 0).zero_()


def _copy(piece: Piece, values: torch.Tensor) -> None:
    """Copy elements with torch's conversion. Raises SafetensorError."""
    assert piece.target is not None
    try:
        with torch.no_grad():
            piece.target.copy_(values)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raise SafetensorError(
            f"cannot copy tensor {piece.name!r} of dtype {piece.wire}"
            f" to {piece.target.dtype} on {piece.target.device}: {error}"
        ) from error


def read_pieces(pieces: Sequence[Piece], done: Callable[[int], None] | None, options: ReadArguments) -> None:
    """Read all pieces. `done` is called with the index of each piece that has its values.

    Pieces without a target get one. `options`: those of the native `load`. Raises
    SafetensorError, OSError, and the errors of `done` and of the progress function. Then some pieces have
    values, and others do not.
    """
    _Reading(pieces, done or (lambda _: None), options, sum(piece.nbytes for piece in pieces)).run()


@dataclass
class _Reading:
    _pieces: Sequence[Piece]
    _done: Callable[[int], None]
    _options: ReadArguments
    _total: int
    _read: int = 0

    def run(self) -> None:
        for indices in self._rounds():
            groups: dict[int, list[int]] = {}
            for index in indices:
                groups.setdefault(id(self._pieces[index].checkpoint), []).append(index)
            for group in groups.values():
                self._run(group)

    def _rounds(self) -> list[list[int]]:
        """Return lists of indices. The owners of one list share no memory.

        Tied tensors have two names and one memory. They are read one after the other, in the order
        of the pieces, so that the last one counts.
        """
        owners = [piece.owner for piece in self._pieces]
        shared = overlapping([piece.target for piece in self._pieces], owners)
        apart = [index for index, owner in enumerate(owners) if owner not in shared]
        rounds: dict[Any, list[int]] = {}
        for index, owner in enumerate(owners) if shared else ():
            if owner in shared:
                rounds.setdefault(owner, []).append(index)
        return [apart, *rounds.values()]

    def _run(self, indices: list[int]) -> None:
        """Read pieces of one checkpoint."""
        planned: list[int] = []
        requests: list[Request] = []
        streamed: list[int] = []
        for index in indices:
            request = self._pieces[index].request()
            if request is None:
                streamed.append(index)
            else:
                planned.append(index)
                requests.append(request)
        native = self._pieces[indices[0]].checkpoint._native
        if planned:
            results = native.load(requests, **part_of(self._options, self._read, self._total))
            for index, result in zip(planned, results, strict=True):
                if (target := self._pieces[index].target) is None:
                    self._pieces[index].target = result
                else:
                    _bump_version(target)
            self._finish(planned)
        if streamed:
            self._stream(native, streamed)

    def _stream(self, native: Any, indices: list[int]) -> None:
        parts = [part for index in indices for part in self._split(self._pieces[index])]
        requests: list[Request] = [(piece.name, piece.index(), None, None) for piece in parts]
        items = native.stream(requests, **part_of(self._options, self._read, self._total))
        try:
            while (item := next(items, None)) is not None:
                _copy(parts[item[0]], item[1])
                del item
        finally:
            items.close()
        self._finish(indices)

    def _split(self, piece: Piece) -> list[Piece]:
        """Cut a piece along its first dimension, so that each part is within the memory limit."""
        assert piece.target is not None
        limit = (self._options["memory_limit"] or DEFAULT_BUDGET) // 2
        rows = piece.target.shape[0] if piece.target.dim() else 1
        if piece.nbytes <= limit or rows < 2:
            return [piece]
        step = max(1, limit * rows // piece.nbytes)
        first, *others = piece.offsets or (0,) * piece.target.dim()
        parts = []
        for begin in range(0, rows, step):
            target = piece.target.narrow(0, begin, min(step, rows - begin))
            parts.append(replace(piece, offsets=(first + begin, *others), target=target))
        return parts

    def _finish(self, indices: list[int]) -> None:
        self._read += sum(self._pieces[index].nbytes for index in indices)
        for index in indices:
            self._done(index)
