"""Reads pieces of tensors into memory of torch: by a read plan where the plan can, else by a stream.

The plan writes straight into tensors on the CPU, with strides if need be, and casts between floats on
the way. torch copies the other pieces out of a stream: those on devices, and those with a conversion
that the plan lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .._arrays.dtypes import can_read_as, format_name
from .._base.options import Progress
from .._models.fill import bump_version, overlapping, plan_target
from .._native import SafetensorError
from .._read.checkpoint import DEFAULT_BUDGET, Checkpoint
from .._read.requests import Request
from .stored import StoredTensor

__all__ = ["Piece", "check_dtypes", "copy_values", "file_index", "read_pieces"]


@dataclass(slots=True)
class Piece:
    """Elements of a stored tensor, and the memory for them.

    `checkpoint` holds them in a tensor of the same name, at `offsets`. `target` has their shape. Pieces
    with the same `owner` share no element of memory.
    """

    stored: StoredTensor
    checkpoint: Checkpoint
    offsets: tuple[int, ...]
    target: torch.Tensor
    owner: Any

    @property
    def nbytes(self) -> int:
        """Bytes of the elements in torch's dtype."""
        assert self.stored.dtype is not None
        return self.target.numel() * self.stored.dtype.itemsize

    def index(self) -> tuple[slice, ...] | None:
        """Return the index of the elements in the file. None: the whole tensor."""
        return file_index(self.stored, self.checkpoint, self.offsets, self.target.shape)

    def request(self) -> Request | None:
        """Return how the plan reads the piece, or None if torch must copy it."""
        target, stored = self.target, self.stored.wire
        try:
            wire = format_name(target.dtype)
        except SafetensorError:
            return None
        if not can_read_as(stored, wire):
            return None
        shape = list(target.shape)
        if stored == "F4" and shape:
            shape[-1] *= 2
        memory = plan_target(target, self.stored.name, wire, shape)
        if memory is None:
            return None
        return self.stored.name, self.index(), wire if wire != stored else None, memory


def file_index(
    stored: StoredTensor, checkpoint: Checkpoint, offsets: Sequence[int], sizes: Sequence[int]
) -> tuple[slice, ...] | None:
    """Return the index of a box of elements in the file. None: the whole tensor."""
    whole = list(checkpoint.get_tensor_meta(stored.name).shape)
    found = [slice(o, o + n) for o, n in zip(offsets, sizes, strict=True)]
    if stored.wire == "F4" and found:  # torch counts pairs
        found[-1] = slice(2 * found[-1].start, 2 * found[-1].stop)
    if all(part == slice(0, size) for part, size in zip(found, whole, strict=True)):
        return None
    return tuple(found)


def copy_values(stored: StoredTensor, target: torch.Tensor, values: torch.Tensor) -> None:
    """Copy elements of a stored tensor, with torch's conversion. Raises SafetensorError."""
    try:
        with torch.no_grad():
            target.copy_(values)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raise SafetensorError(
            f"cannot copy tensor {stored.name!r} of dtype {stored.wire}"
            f" to {target.dtype} on {target.device}: {error}"
        ) from error


def check_dtypes(pieces: Sequence[Piece]) -> None:
    """Raise SafetensorError for a dtype that torch lacks."""
    for piece in pieces:
        if piece.stored.dtype is None:
            raise SafetensorError(
                f"tensor {piece.stored.name!r} has dtype {piece.stored.wire}, which torch lacks"
            )


def read_pieces(
    pieces: Sequence[Piece],
    done: Callable[[int], None] | None,
    progress: Progress | None,
    **options: Any,
) -> None:
    """Read all pieces. `done` is called with the index of each piece that has its values.

    `options`: those of the native `load`, without `progress`. Raises SafetensorError, OSError, and the
    errors of `done` and of the progress function. Then some pieces have values, and others do not.
    """
    check_dtypes(pieces)
    _Reading(pieces, done, progress, options).run()


class _Reading:
    def __init__(
        self,
        pieces: Sequence[Piece],
        done: Callable[[int], None] | None,
        progress: Progress | None,
        options: dict[str, Any],
    ) -> None:
        self._pieces = pieces
        self._done = done or (lambda _: None)
        self._progress = progress
        self._options = options
        self._read = 0
        self._total = sum(piece.nbytes for piece in pieces)

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
        of_owner: dict[Any, list[int]] = {}
        for index, piece in enumerate(self._pieces):
            of_owner.setdefault(piece.owner, []).append(index)
        targets = [piece.target for piece in self._pieces]
        shared = overlapping(targets, [piece.owner for piece in self._pieces])
        apart = [i for owner, indices in of_owner.items() if owner not in shared for i in indices]
        return [apart, *(indices for owner, indices in of_owner.items() if owner in shared)]

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
            native.load(requests, progress=self._report(), **self._options)
            for index in planned:
                if not self._pieces[index].target.is_inference():
                    bump_version(self._pieces[index].target)
            self._finish(planned)
        if streamed:
            self._stream(native, streamed)

    def _stream(self, native: Any, indices: list[int]) -> None:
        parts = [part for index in indices for part in self._split(index)]
        requests: list[Request] = [
            (piece.stored.name, piece.index(), None, None) for piece in parts
        ]
        items = native.stream(requests, progress=self._report(), **self._options)
        try:
            while (item := next(items, None)) is not None:
                piece = parts[item[0]]
                copy_values(piece.stored, piece.target, item[1])
                del item
        finally:
            items.close()
        self._finish(indices)

    def _split(self, index: int) -> list[Piece]:
        """Cut a piece along its first dimension, so that each part is within the memory limit."""
        piece = self._pieces[index]
        limit = (self._options["memory_limit"] or DEFAULT_BUDGET) // 2
        rows = piece.target.shape[0] if piece.target.dim() else 1
        if piece.nbytes <= limit or rows < 2:
            return [piece]
        step = max(1, limit * rows // piece.nbytes)
        parts = []
        for begin in range(0, rows, step):
            target = piece.target.narrow(0, begin, min(step, rows - begin))
            offsets = (piece.offsets[0] + begin, *piece.offsets[1:])
            parts.append(Piece(piece.stored, piece.checkpoint, offsets, target, piece.owner))
        return parts

    def _finish(self, indices: list[int]) -> None:
        self._read += sum(self._pieces[index].nbytes for index in indices)
        for index in indices:
            self._done(index)

    def _report(self) -> Progress | None:
        if (progress := self._progress) is None:
            return None
        read, total = self._read, self._total
        return lambda part, _: progress(read + part, total)
