"""Fills pieces of tensors so that ranks share reads: what several ranks need is read once and passed on.

1. Each rank says which boxes of which parts it needs (one `all_gather_object`). From this, all ranks
   compute the same schedule: see `share_plan.py`.
2. Each rank reads the bytes that only it needs by its own plan, straight into its tensors.
   Meanwhile, a thread reads the first bucket for the other ranks.
3. In rounds, ranks send the buckets, copy and cast them into the tensors, and already read the next
   buckets: see `share_exchange.py`. A thread does this. So Ctrl-C interrupts no collective, which
   would leave the other ranks waiting. The functions of the caller run in the thread of the caller.

If a rank fails, all ranks stop in the same round, and only the failed rank raises its error. So the
ranks must exchange their errors afterwards: `agree` does this, and so does
torch.distributed.checkpoint.

Memory: four buckets (two that are read, two that are received), and a fourth of the limit for each of the
two plans that read at the same time.
"""

from __future__ import annotations

import operator
import os
import queue
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from .._base.options import Progress
from .._models.fill import overlapping
from .._native import SafetensorError
from .._read.checkpoint import DEFAULT_BUDGET
from .agreement import describe
from .boxes import Box
from .pieces import Piece, check_dtypes, copy_values, read_pieces
from .share_choice import Choice
from .share_exchange import (
    BUFFERS,
    BucketReader,
    Exchange,
    bits,
    narrow,
    transport_device,
    values_of,
)
from .share_plan import Message, Schedule, make_schedule
from .stored import Part, Stored, StoredTensor

__all__ = ["LoadReport", "load_pieces"]

_MIN_BUCKET = 64 << 10  # bytes, even if the memory limit is smaller


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The report on a load of one rank.

    `share`: "never", "node" or "group". `reason`: why. `bytes_needed`: bytes of the tensors of this
    rank, as stored. `bytes_read`: bytes of tensors that this rank read from files, for itself and
    for others. They include the gaps that were read between short pieces, such as columns, so they
    may exceed `bytes_needed`. Bytes that were copied from a map of the page cache count without
    gaps. Headers do not count.
    `bytes_received`: bytes that came from other ranks. `seconds`: from the announcement of the
    pieces to the last byte.
    """

    share: str
    reason: str
    bytes_needed: int
    bytes_read: int
    bytes_received: int
    seconds: float

    __module__ = f"{__name__.partition('.')[0]}.distributed"


def load_pieces(
    stored: Stored | None,
    prepare: Callable[[], tuple[Sequence[Piece], Progress | None]],
    done: Callable[[int], None] | None,
    *,
    choice: Choice,
    group: Any,
    **options: Any,
) -> LoadReport | None:
    """Read all pieces that `prepare` returns. All ranks must call it, with the same choice.

    `prepare` also returns the progress function. `done`, `options`: as in `read_pieces`. Returns None if
    another rank has failed: then the pieces have no values. Raises the errors of `prepare` and those of
    `read_pieces` on this rank only, and the errors of torch.distributed if a rank was killed.
    """
    begin = time.monotonic()
    if choice.share == "never":
        pieces, progress = prepare()
        read_pieces(pieces, done, progress, **options)
        needed = sum(piece.nbytes for piece in pieces)
        seconds = time.monotonic() - begin
        read = 0 if stored is None else stored.bytes_read()
        return LoadReport(choice.share, choice.reason, needed, read, 0, seconds)
    try:
        assert stored is not None
        pieces, progress = prepare()
        sharing = _Sharing(stored, pieces, done, progress, group)
        own = _Announcement(None, machine(), sharing.encoded(), _limit(options))
    except BaseException as error:
        _announce(group, _Announcement(describe(error)))
        raise
    received = sharing.run(choice.share, own, options)
    if received is None:
        return None
    seconds = time.monotonic() - begin
    read = stored.bytes_read()
    return LoadReport(choice.share, choice.reason, sharing.needed, read, received, seconds)


class _Announcement(NamedTuple):
    """A rank's message to all others. `needs`: see `_Sharing.encoded`. `limit`: memory in bytes."""

    failure: str | None
    machine: str = ""
    needs: bytes = b""
    limit: int = 0


def _limit(options: dict[str, Any]) -> int:
    """Return the memory limit in bytes. 0 stands for the default, as in a read plan."""
    return operator.index(options["memory_limit"] or DEFAULT_BUDGET)


def machine() -> str:
    """Return a text that only the processes of one machine have in common."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return os.uname().nodename


def _announce(group: Any, own: _Announcement) -> list[_Announcement] | None:
    """Exchange the announcements of all ranks. Return None if one of them has failed."""
    found: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(found, own, group=group)
    if own.failure is not None:
        return None
    for rank, other in enumerate(found):
        if not isinstance(other, _Announcement):  # torch sends errors of a planner in this way
            error = other[0] if isinstance(other, tuple) and other else other
            text = describe(error) if isinstance(error, BaseException) else repr(error)
            raise SafetensorError(f"rank {rank} did not begin to read: {text}")
    return None if any(other.failure is not None for other in found) else found


class _Target(NamedTuple):
    """A piece of this rank, by its ordinal. `box`: its elements in its part."""

    piece: int
    box: Box


class _Sharing:
    """The pieces of one rank."""

    def __init__(
        self,
        stored: Stored,
        pieces: Sequence[Piece],
        done: Callable[[int], None] | None,
        progress: Progress | None,
        group: Any,
    ) -> None:
        check_dtypes(pieces)
        self._group = group
        self._pieces = pieces
        self._done = done or (lambda _: None)
        self._progress = progress
        self._parts: list[tuple[StoredTensor, Part]] = [
            (tensor, part) for tensor in stored for part in tensor.parts.values()
        ]
        ordinals = {(t.name, id(p.checkpoint)): i for i, (t, p) in enumerate(self._parts)}
        # Tied tensors are filled one after the other, in the order of the pieces. So this rank
        # reads them itself.
        owners = [piece.owner for piece in pieces]
        tied = overlapping([piece.target for piece in pieces], owners)
        self._alone = [i for i, p in enumerate(pieces) if p.owner in tied or not p.target.numel()]
        self._targets: dict[int, list[_Target]] = {}  # by the ordinal of the part
        for index in sorted(set(range(len(pieces))) - set(self._alone)):
            piece = pieces[index]
            box = Box(piece.offsets, tuple(piece.target.shape))
            key = piece.stored.name, id(piece.checkpoint)
            self._targets.setdefault(ordinals[key], []).append(_Target(index, box))
        self._left = [piece.target.numel() for piece in pieces]  # elements without their value
        self.needed = sum(piece.nbytes for piece in pieces)
        self._filled = 0  # bytes
        self._exchanged = Exchange(group, transport_device(group), self._parts, self._deliver)
        # Calls that the exchange's thread wants to run in the caller's thread. None: the exchange
        # has ended.
        self._calls: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()

    def run(self, share: str, announcement: _Announcement, options: dict[str, Any]) -> int | None:
        """Return the bytes received, or None if another rank has failed."""
        announced = _announce(self._group, announcement)
        if announced is None:
            return None
        options = {**options, "memory_limit": max(1, announcement.limit // 4)}
        reader = BucketReader(self._parts, options)
        rounds: list[list[Message]] = []
        exchange = self._exchanged
        try:
            # From here on, the other ranks wait for this one in a round, whatever happens to it.
            try:
                schedule = self._schedule(announced, share)
                rounds = schedule.messages
                rank = dist.get_rank(self._group)
                reads = [units.get(rank, []) for units in schedule.reads]
                reader.plan(reads)
                exchange.reserve(rounds, reads)
                self._read_own(schedule.own[rank], options)
            except BaseException as error:
                exchange.fault = error
            succeeded = self._exchange(rounds or [[]], reader)
        finally:
            reader.close()
        if exchange.fault is not None:
            raise exchange.fault
        return exchange.bytes_received if succeeded else None

    def _schedule(self, announced: list[_Announcement], share: str) -> Schedule:
        limit = min(one.limit for one in announced)  # all ranks must compute the same
        return make_schedule(
            [self._decoded(one.needs) for one in announced],
            [part.box.sizes for _, part in self._parts],
            [1 if tensor.dtype is None else tensor.dtype.itemsize for tensor, _ in self._parts],
            [one.machine if share == "node" else "" for one in announced],
            max(_MIN_BUCKET, limit // (2 * BUFFERS)),
        )

    def encoded(self) -> bytes:
        """Return numbers per box: the part, the offsets, the sizes. ~part stands for the whole part."""
        numbers = array("q")
        for part, targets in self._targets.items():
            whole = self._parts[part][1].box.sizes
            for box in {target.box for target in targets}:
                if box.sizes == whole:
                    numbers.append(~part)
                else:
                    numbers.extend((part, *box.offsets, *box.sizes))
        return numbers.tobytes()

    def _decoded(self, needs: bytes) -> dict[int, list[Box]]:
        numbers = array("q")
        numbers.frombytes(needs)
        found: dict[int, list[Box]] = {}
        index = 0
        while index < len(numbers):
            part = numbers[index]
            index += 1
            sizes = self._parts[max(part, ~part)][1].box.sizes
            if part < 0:
                found.setdefault(~part, []).append(Box((0,) * len(sizes), sizes))
                continue
            middle, end = index + len(sizes), index + 2 * len(sizes)
            box = Box(tuple(numbers[index:middle]), tuple(numbers[middle:end]))
            found.setdefault(part, []).append(box)
            index = end
        return found

    def _read_own(self, boxes: Sequence[tuple[int, Box]], options: dict[str, Any]) -> None:
        """Read what only this rank needs."""
        own: list[Piece] = [self._pieces[index] for index in self._alone]
        indices = list(self._alone)
        for part, box in boxes:
            for target in self._targets[part]:
                common = target.box.common(box)
                if common is not None:
                    own.append(self._part_of(target, common))
                    indices.append(target.piece)

        def finish(index: int) -> None:
            if self._finish(indices[index], own[index].target.numel()):
                self._done(indices[index])

        report = None if self._progress is None else lambda read, _: self._report(read)
        read_pieces(own, finish, report, **options)
        self._filled = sum(piece.nbytes for piece in own)

    def _part_of(self, target: _Target, box: Box) -> Piece:
        piece = self._pieces[target.piece]
        if box == target.box:
            return piece
        part = narrow(piece.target, target.box, box)
        return Piece(piece.stored, piece.checkpoint, box.offsets, part, piece.owner)

    def _finish(self, index: int, elements: int) -> bool:
        """Count elements that have their values. Return whether the whole piece has them."""
        self._left[index] -= elements
        return not self._left[index]

    def _exchange(self, rounds: list[list[Message]], reader: BucketReader) -> bool:
        """Run the rounds in a thread, and the functions of the caller here. Return whether all is well.

        Raises the errors of torch.distributed. Ctrl-C ends the rounds of all ranks. A second one ends the
        wait for this thread, too.
        """
        result: list[Any] = []
        exchange = self._exchanged
        device = exchange.device

        def work() -> None:
            try:
                if device.type != "cpu":  # each thread has its own current device
                    torch.get_device_module(device.type).set_device(device)
                result.append(_run_rounds(rounds, reader, exchange))
            except BaseException as error:
                result.append(error)
            finally:
                self._calls.put(None)

        thread = threading.Thread(target=work, name="safetensors-exchange", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # too many threads
            exchange.fault = exchange.fault or error
            exchange.any_failed()
            return False
        interrupted = False
        while True:
            try:
                call = self._calls.get()
                if call is None:
                    break
                if exchange.fault is None:
                    call()
            except BaseException as error:
                if interrupted and isinstance(error, KeyboardInterrupt):
                    raise
                interrupted = interrupted or isinstance(error, KeyboardInterrupt)
                exchange.fault = exchange.fault or error
        thread.join()
        if isinstance(result[0], BaseException):
            raise result[0] from exchange.fault
        return bool(result[0])

    def _deliver(self, message: Message, values: torch.Tensor) -> None:
        """Copy the units of a message into the pieces. Runs in the thread of the exchange."""
        for unit in message.units:
            tensor = self._parts[unit.part][0]
            found = values_of(values, message.begin, unit, self._parts)
            for target in self._targets.get(unit.part, ()):
                common = target.box.common(unit.box)
                if common is None:
                    continue
                part = narrow(self._pieces[target.piece].target, target.box, common)
                _copy(tensor, part, narrow(found, unit.box, common))
                self._filled += common.elements * found.itemsize
                if self._finish(target.piece, common.elements):
                    self._calls.put(lambda piece=target.piece: self._done(piece))  # type: ignore[misc]
        filled = self._filled
        self._calls.put(lambda: self._report(filled))

    def _report(self, filled: int) -> None:
        if self._progress is not None:
            self._progress(filled, self.needed)


def _run_rounds(rounds: list[list[Message]], reader: BucketReader, exchange: Exchange) -> bool:
    """Return whether no rank has failed before the last round."""
    for index, messages in enumerate(rounds):
        bucket = None
        try:
            if exchange.fault is None:
                bucket = exchange.on_device(reader.wait(index))
                reader.start(index + 1)
        except BaseException as error:
            exchange.fault = exchange.fault or error
        if exchange.any_failed():
            return False
        exchange.run(messages, bucket)
    return True


def _copy(stored: StoredTensor, target: torch.Tensor, values: torch.Tensor) -> None:
    """Copy and cast. Without a cast, copy bits: torch cannot copy some dtypes."""
    if target.dtype == values.dtype and type(target) is torch.Tensor:
        if not (target.is_conj() or target.is_neg()):
            target, values = bits(target), bits(values)
    if target.is_inference():
        with torch.inference_mode():
            copy_values(stored, target, values)
    else:
        copy_values(stored, target, values)
