"""Moves the bytes of a schedule: reads buckets in the background, and sends them by the process group.

A round is: wait for the own bucket of the round, start to read the next one, ask all ranks whether one of
them has failed (`all_reduce` of one number), and pass on the messages of all buckets. So no rank enters a
collective that another one does not enter, and all ranks stop in the same round.

A message that most ranks need is a `broadcast` in the whole group. The others are sends and receives
between the ranks that need them. Subgroups are not used: each different set of ranks would need one, all
ranks of the job would have to make it at the same time, and NCCL takes memory for each. The readers
take turns within a round, and all of them read about the same number of bytes. So each rank sends
and receives about as many bytes as with `all_gather`, but a part may have any size and go to any
set of ranks.

All ranks post the messages in one order, and finish the oldest one first. So the oldest message that is
not finished is always posted by all its ranks: ranks cannot wait for each other in a circle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
import torch.distributed as dist

from .._read.requests import Request
from .boxes import Box
from .pieces import file_index
from .share_plan import Message, Unit
from .stored import Part, StoredTensor

__all__ = [
    "BUFFERS",
    "BucketReader",
    "Exchange",
    "bits",
    "narrow",
    "transport_device",
    "values_of",
]

BUFFERS = 4  # of a bucket each: two for reading, two for receiving and for packing

Parts = Sequence[tuple[StoredTensor, Part]]
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes per element


def values_of(memory: torch.Tensor, begin: int, unit: Unit, parts: Parts) -> torch.Tensor:
    """Return the elements of a unit. `memory`: the bytes from the offset `begin` on."""
    dtype = parts[unit.part][0].dtype
    assert dtype is not None
    offset = unit.offset - begin
    return memory[offset : offset + unit.nbytes].view(dtype).reshape(unit.box.sizes)


def narrow(tensor: torch.Tensor, box: Box, inner: Box) -> torch.Tensor:
    """Return the elements of `inner` of a tensor that has those of `box`."""
    for dim, (offset, size) in enumerate(zip(*inner, strict=True)):
        if size != box.sizes[dim]:
            tensor = tensor.narrow(dim, offset - box.offsets[dim], size)
    return tensor


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return the elements as integers of the same size, if there are such. torch copies them all."""
    integer = _INTEGERS.get(tensor.dtype.itemsize)
    return tensor if integer is None else tensor.view(integer)


class Stopped(Exception):
    """Ends a read that nobody needs any more."""


class BucketReader:
    """Reads the buckets of this rank one after the other in a thread, in two buffers.

    `options`: those of the native `load`, without `progress`.
    """

    def __init__(self, parts: Parts, options: dict[str, Any]) -> None:
        self._rounds: Sequence[Sequence[Unit]] = []
        self._parts = parts
        self._options = options
        self._buffers: list[torch.Tensor] = []
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="safetensors-share")
        self._stopped = False
        self._pending: Future[None] | None = None

    def plan(self, rounds: Sequence[Sequence[Unit]]) -> None:
        """Take the units of each round, make memory for them, and start to read the first bucket."""
        self._rounds = rounds
        size = max((_size(units) for units in rounds), default=0)
        self._buffers = [
            torch.empty(size, dtype=torch.uint8, device="cpu") for _ in range(min(2, len(rounds)))
        ]
        self.start(0)

    def start(self, index: int) -> None:
        """Start to read the bucket of a round. The bucket two rounds before is not needed any more."""
        if index < len(self._rounds) and self._rounds[index]:
            self._pending = self._pool.submit(self._read, index)

    def wait(self, index: int) -> torch.Tensor | None:
        """Return the bucket of a round that was started. Raises the errors of reading."""
        if index >= len(self._rounds) or not self._rounds[index]:
            return None
        assert self._pending is not None
        self._pending.result()
        return self._buffers[index % 2]

    def close(self) -> None:
        """Stop reading, and wait for the thread."""
        self._stopped = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _read(self, index: int) -> None:
        buffer = self._buffers[index % 2]
        requests: dict[int, list[Request]] = {}
        natives: dict[int, Any] = {}
        for unit in self._rounds[index]:
            tensor, part = self._parts[unit.part]
            native = part.checkpoint._native
            natives[id(native)] = native
            memory = (buffer.data_ptr() + unit.offset, unit.nbytes, None, buffer)
            found = file_index(tensor, part.checkpoint, *unit.box)
            requests.setdefault(id(native), []).append((tensor.name, found, None, memory))
        for key, given in requests.items():
            natives[key].load(given, progress=self._check, **self._options)

    def _check(self, done: int, total: int) -> None:
        if self._stopped:
            raise Stopped


def _size(units: Sequence[Unit]) -> int:
    return units[-1].offset + units[-1].nbytes if units else 0


def transport_device(group: Any) -> torch.device:
    """Return the device of tensors that the group can send: the CPU if it can."""
    kinds = [pair.partition(":")[0] for pair in dist.get_backend_config(group).split(",")]
    if "cpu" in kinds:
        return torch.device("cpu")
    return torch.device(kinds[0], torch.get_device_module(kinds[0]).current_device())


class Exchange:
    """Passes the messages of rounds on. Each rank of the group has one, and calls the same methods.

    `deliver` gets each message that this rank needs, and its bytes. Its errors end the exchange of all
    ranks in the next round. Errors of packing do the same. The other ranks wait for the messages of
    this round, so these are still posted, with undefined bytes.
    """

    def __init__(
        self,
        group: Any,
        device: torch.device,
        parts: Parts,
        deliver: Callable[[Message, torch.Tensor], None],
    ) -> None:
        self._group: Any = dist.group.WORLD if group is None else group
        self._rank = dist.get_rank(group)
        self._world_size = dist.get_world_size(group)
        # With TORCH_DISTRIBUTED_DEBUG=DETAIL, torch compares how many operations each rank has made,
        # including sends and receives. So only broadcasts are possible.
        debug: Any = dist
        self._counted = debug.get_debug_level() == debug.DebugLevel.DETAIL
        self.device = device
        self._parts = parts
        self._deliver = deliver
        self._free: list[torch.Tensor] = []
        self._bucket: torch.Tensor | None = None  # on a device other than the CPU
        self._posted: deque[tuple[Message, torch.Tensor, torch.Tensor | None, list[Any]]] = deque()
        self._tag = 0
        self.bytes_received = 0
        self.fault: BaseException | None = None

    def reserve(self, rounds: Sequence[Sequence[Message]], reads: Sequence[Sequence[Unit]]) -> None:
        """Make memory for messages, before this rank enters a round. `reads`: its units per round."""
        if self.device.type != "cpu":
            largest = max((_size(units) for units in reads), default=0)
            self._bucket = torch.empty(largest, dtype=torch.uint8, device=self.device)
        largest = max((one.end - one.begin for messages in rounds for one in messages), default=0)
        count = BUFFERS - 2 if largest else 0
        self._free = [
            torch.empty(largest, dtype=torch.uint8, device=self.device) for _ in range(count)
        ]

    def any_failed(self) -> bool:
        """Return whether a rank has a fault. All ranks must call it."""
        flag = torch.tensor([self.fault is not None], dtype=torch.int32, device=self.device)
        dist.all_reduce(flag, op=dist.ReduceOp.MAX, group=self._group)
        return bool(flag.item())

    def on_device(self, bucket: torch.Tensor | None) -> torch.Tensor | None:
        """Return the bucket on the device of the group. A bucket is valid until the next call."""
        if bucket is None or self._bucket is None:
            return bucket
        self._bucket[: bucket.numel()].copy_(bucket)
        return self._bucket

    def run(self, messages: Sequence[Message], bucket: torch.Tensor | None) -> None:
        """Pass on the messages of a round. All ranks must call it.

        `bucket`: that of this rank, on the device. Raises the errors of torch.distributed. The others
        become the fault.
        """
        for message in messages:
            self._tag += 1
            mine = message.reader == self._rank
            if not mine and self._rank not in message.ranks and not self._for_most(message):
                continue
            while not self._free and (not mine or message.sources):
                self._finish()
            view, slot = self._memory(message, bucket)
            if not mine:
                self.bytes_received += view.numel()
            self._posted.append((message, view, slot, self._post(message, view)))
        while self._posted:
            self._finish()

    def _memory(
        self, message: Message, bucket: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the memory of a message, which has its bytes if this rank sends it, and its slot."""
        mine = message.reader == self._rank
        slot = None
        try:
            if mine and not message.sources:
                assert bucket is not None
                return bucket[message.begin : message.end], None
            slot = self._slot()
            if mine:
                assert bucket is not None
                self._pack(message, bucket, slot)
        except Exception as error:
            self.fault = self.fault or error
        size = message.end - message.begin
        if slot is None:
            return torch.empty(size, dtype=torch.uint8, device=self.device), None
        return slot[:size], slot

    def _pack(self, message: Message, bucket: torch.Tensor, slot: Any) -> None:
        """Copy parts of units of the bucket to where they are in the message."""
        for unit, source in zip(message.units, message.sources, strict=True):
            values = narrow(values_of(bucket, 0, source, self._parts), source.box, unit.box)
            bits(values_of(slot, 0, unit, self._parts)).copy_(bits(values))

    def _for_most(self, message: Message) -> bool:
        receivers = len(message.ranks) - (message.reader in message.ranks)
        return receivers > 0 and (self._counted or 2 * receivers > self._world_size - 1)

    def _slot(self) -> torch.Tensor:
        """Return memory for a message."""
        return self._free.pop()

    def _post(self, message: Message, view: torch.Tensor) -> list[Any]:
        source = dist.get_global_rank(self._group, message.reader)
        if self._for_most(message):
            return [dist.broadcast(view, src=source, group=self._group, async_op=True)]
        if message.reader != self._rank:
            receive = dist.P2POp(dist.irecv, view, source, self._group, self._tag)
            return list(dist.batch_isend_irecv([receive]))
        sends: list[Any] = [
            dist.P2POp(
                dist.isend, view, dist.get_global_rank(self._group, rank), self._group, self._tag
            )
            for rank in message.ranks
            if rank != self._rank
        ]
        return list(dist.batch_isend_irecv(sends)) if sends else []

    def _finish(self) -> None:
        """Finish the oldest message that was posted."""
        message, view, slot, works = self._posted.popleft()
        for work in works:
            work.wait()
        if self._rank in message.ranks and self.fault is None:
            try:
                self._deliver(message, view)
            except Exception as error:
                self.fault = error
        if slot is not None:
            self._free.append(slot)
