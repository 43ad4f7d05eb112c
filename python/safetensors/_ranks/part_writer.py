"""Writes the part of one rank of a checkpoint that several ranks write together.

Rank 0 creates the files under temporary names, and invites the other ranks. Every rank writes its boxes
straight into these files. Then rank 0 gets a receipt of each other rank, and puts the files in place.
The callers carry the texts between the ranks.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from typing import Any, NamedTuple
from weakref import finalize

import torch

from .. import _native
from .._arrays.dtypes import format_name
from .._arrays.values import to_value
from .._base.options import Progress, reporter, to_size
from .._base.paths import to_path
from .._native import SafetensorError
from .._read.checkpoint import DEFAULT_BUDGET
from .._write.save_checkpoint import CheckpointLayout, SaveOptions

__all__ = ["Invitation", "PartWriter", "Specs", "budget_of", "check_savable", "spec_of"]

# Per tensor its dtype and shape in torch, in the order in which the layout takes the tensors.
Specs = dict[str, tuple[torch.dtype, tuple[int, ...]]]


def spec_of(name: str, dtype: torch.dtype, shape: Iterable[int]) -> tuple[torch.dtype, Any]:
    """Return a value of Specs. Raises SafetensorError, with the name, for a dtype that no file holds."""
    try:
        format_name(dtype)
    except SafetensorError:
        raise SafetensorError(f"cannot save {name!r}: it has dtype {dtype}, which the format cannot hold") from None
    return dtype, tuple(shape)


def check_savable(name: str, tensor: Any) -> None:
    """Raise SafetensorError for a tensor, or torch's properties of one, that has no dense values."""
    if tensor.layout != torch.strided:
        raise SafetensorError(f"cannot save {name!r}: it is sparse (make it dense with `.to_dense()`)")
    if getattr(tensor, "is_meta", False):
        raise SafetensorError(f"cannot save {name!r}: it is on the meta device, without values")


class Invitation(NamedTuple):
    """The two texts that a rank needs to write into the files of rank 0."""

    ticket: str
    layout: bytes


def budget_of(options: SaveOptions) -> int:
    """Return the memory limit in bytes. Raises as `to_size`."""
    return to_size(options.memory_limit, "memory_limit") or DEFAULT_BUDGET


def check_folder(path: str | PathLike[str], argument: str = "path") -> str:
    """Return a path as a str. Raises ValueError for that of a file: a checkpoint of many ranks is a folder.

    Raises TypeError, which names the argument, for an object that is no path.
    """
    text = to_path(path, argument)
    if text.lower().endswith(".safetensors"):
        raise ValueError(f"{text!r} would be a folder: give the path of a folder")
    return text


class PartWriter:
    """Writes the part of this rank. Close it after every error."""

    def __init__(self, native: _native._Writer, layout: CheckpointLayout, budget: int, end: Any) -> None:
        self._native = native
        self._layout = layout
        self._budget = budget
        self._end_report = end
        self._all_done: Callable[[], object] | None = None
        # An error of torch.distributed can leave this object in a cycle. Then its files are removed
        # at exit.
        self._finalizer = finalize(self, native.close)

    @classmethod
    def create(cls, path: str | PathLike[str], specs: Specs, options: SaveOptions, *, alone: bool) -> PartWriter:
        """Create the files of a checkpoint, as rank 0. `alone`: no other rank writes.

        Raises SafetensorError, OSError, TypeError, ValueError.
        """
        path = check_folder(path)
        layout = options.layout(specs)
        budget = budget_of(options)
        native, end = options.writer(path, layout._native, shared=not alone)
        return cls(native, layout, budget, end)

    @classmethod
    def join(cls, invitation: Invitation, options: SaveOptions, total: int) -> PartWriter:
        """Join the work of rank 0. `total`: the bytes of this rank, for its progress function."""
        layout: CheckpointLayout = pickle.loads(invitation.layout)
        budget = budget_of(options)
        report, end = reporter(options.progress, "Saving")
        own: Progress | None = None
        if (shown := report) is not None:
            own = lambda done, _: shown(done, total)  # the native total is that of all ranks
        try:
            native = _native._join_checkpoint(invitation.ticket, layout._native, progress=own)
        except BaseException:
            end()
            raise
        joined = cls(native, layout, budget, end)
        if shown is not None:
            joined._all_done = lambda: shown(total, total)
        return joined

    def invitation(self) -> Invitation:
        """Return the texts for the other ranks."""
        return Invitation(self._native.ticket(), pickle.dumps(self._layout))

    def write(self, name: str, offsets: Sequence[int], data: torch.Tensor, dtype: torch.dtype | None = None) -> None:
        """Write a box of a tensor. `offsets`: its first element. `dtype`: cast the box to it.

        A tensor in host memory is written as it lies there. One on a device, one with strides and one
        that is cast is copied first, in parts that are within the memory limit.
        """
        wait = getattr(data, "wait", None)  # only the result of a collective that runs has it
        if wait is not None:
            data = wait()
        data = data.detach()
        check_savable(name, data)
        if data.numel() == 0:
            return
        kept = dtype is None or dtype == data.dtype
        if kept and data.is_cpu and data.is_contiguous() and not (data.is_conj() or data.is_neg()):
            self._write(name, offsets, data)
            return
        cast = data.dtype if dtype is None else dtype
        limit = self._budget // (data.dtype.itemsize + cast.itemsize)
        for begins, part in _parts(data, max(1, limit)):
            first = [offset + begin for offset, begin in zip(offsets, begins, strict=True)]
            part = part.to(cast, memory_format=torch.contiguous_format)
            self._write(name, first, part)

    def _write(self, name: str, offsets: Sequence[int], data: torch.Tensor) -> None:
        wanted = self._native.dtype(name)
        first, sizes = list(offsets), list(data.shape)
        if wanted == "F4" and sizes:  # torch counts pairs
            first[-1] *= 2
            sizes[-1] *= 2
        self._native.write_slice(name, first, sizes, to_value(data, name, wanted))

    def receipt(self) -> str:
        """Sync and end the part of a rank that has joined. Returns the text for rank 0."""
        text = self._native.receipt()
        if self._all_done is not None:
            self._all_done()
        self.close()
        return text

    def commit(self, receipts: Iterable[str] = ()) -> None:
        """Put the files in place, as rank 0. `receipts`: those of all other ranks."""
        for receipt in receipts:
            self._native.accept(receipt)
        self._native.commit()
        self.close()

    def close(self) -> None:
        """End the part. On rank 0, this removes the files unless they were committed. Idempotent."""
        self._finalizer()
        self._end_report()


def _parts(data: torch.Tensor, elements: int) -> Iterator[tuple[tuple[int, ...], torch.Tensor]]:
    """Cut a tensor into parts of up to this number of elements. Yields the offsets of each part."""
    if data.numel() <= elements:
        yield (0,) * data.dim(), data
        return
    rows = data.shape[0]
    step = elements // (data.numel() // rows)
    if step:
        for begin in range(0, rows, step):
            yield (begin, *(0,) * (data.dim() - 1)), data[begin : begin + step]
        return
    for row in range(rows):
        for begins, part in _parts(data[row], elements):
            yield (row, *begins), part.unsqueeze(0)
