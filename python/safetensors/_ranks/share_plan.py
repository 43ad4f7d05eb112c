"""Decides which rank reads which bytes for which ranks. All ranks compute the same schedule.

A domain is a machine, or the whole group. For each domain and each part:

1. A box whose pieces in the file are short, such as columns, grows to whole rows. The plan of a
   rank would read the gaps between the pieces anyway, and other ranks of the domain need the bytes
   of the gaps.
2. The boxes are cut into boxes that do not overlap (cells). Each cell has a set of ranks that need
   it.
3. If only one rank needs a cell, this rank reads it, straight into its tensor.
4. The other cells are cut into units of at most a bucket. The readers of the units are ranks of the
   cell's set. Units are assigned in the order of the file, so that all ranks read about the same
   number of bytes.
5. The units of a reader fill buckets. Round r has the bucket r of each reader. Adjacent units that
   the same ranks need as a whole are one message. If ranks need only parts of units, the reader
   packs the parts for the same ranks into one message per bucket.

Sets of ranks are bit masks: bit r stands for rank r.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .boxes import Box

__all__ = ["MIN_UNIT", "Message", "Schedule", "Unit", "make_schedule"]

MIN_UNIT = 1 << 20  # bytes: smaller requests cost more than they give other readers to do
_ALIGNMENT = 64  # of a unit in its bucket, in bytes

Needs = Mapping[int, Sequence[Box]]  # per part: the boxes that a rank needs


class Unit(NamedTuple):
    """Elements that one rank reads for several. `offset`: begin of their bytes in its bucket."""

    part: int
    box: Box
    nbytes: int
    offset: int


class Message(NamedTuple):
    """Bytes that a reader sends. `ranks`: the receivers, and the reader if it needs the bytes, too.

    `units` are adjacent units of the bucket. If there are `sources`, each unit is a part of the
    source with the same index, the message has the units one after the other, and the reader is not
    in `ranks`.
    """

    reader: int
    ranks: tuple[int, ...]
    units: tuple[Unit, ...]
    sources: tuple[Unit, ...] = ()

    @property
    def begin(self) -> int:
        """The offset of the first byte in the bucket of the reader. 0 for parts."""
        return self.units[0].offset

    @property
    def end(self) -> int:
        """The offset past the last byte."""
        return self.units[-1].offset + self.units[-1].nbytes


@dataclass(slots=True)
class Schedule:
    """`own`: per rank, the boxes that it reads for itself. `messages`: per round, in their order.

    `reads`: per round and reader, the units of its bucket.
    """

    own: list[list[tuple[int, Box]]]
    messages: list[list[Message]] = field(default_factory=list)
    reads: list[dict[int, list[Unit]]] = field(default_factory=list)


_Deliveries = tuple[
    tuple[int, tuple[Box, ...]], ...
]  # sets of ranks, and the boxes that each needs


class _Job(NamedTuple):
    """A box to read for ranks. No deliveries: all of them need all of it."""

    part: int
    box: Box
    nbytes: int
    ranks: int
    deliveries: _Deliveries = ()


def make_schedule(
    needs: Sequence[Needs],
    shapes: Sequence[Sequence[int]],
    itemsizes: Sequence[int],
    domains: Sequence[Hashable],
    bucket: int,
    min_unit: int = MIN_UNIT,
) -> Schedule:
    """Return the schedule. `needs`: per rank. `shapes`, `itemsizes`: per part, the latter in bytes.

    `domains`: per rank. Ranks of one domain share reads. `bucket`: maximum bytes of a bucket, which has
    space for an element. `min_unit`: the smallest efficient request, in bytes. Units are not made
    smaller to spread them over readers, and boxes of shorter pieces grow.
    """
    schedule = Schedule([[] for _ in needs])
    shared: dict[int, list[_Job]] = {}
    masks: dict[Hashable, int] = {}
    for rank, domain in enumerate(domains):
        masks[domain] = masks.get(domain, 0) | 1 << rank
    known: dict[Any, list[_Job]] = {}  # layers of a model are alike
    for part, held in sorted(_holders(needs).items()):
        for mask in masks.values():
            inside = {box: ranks & mask for box, ranks in held.items() if ranks & mask}
            key = tuple(shapes[part]), itemsizes[part], frozenset(inside.items())
            if key not in known:
                known[key] = list(_jobs(inside, shapes[part], itemsizes[part], min_unit))
            for job in (job._replace(part=part) for job in known[key]):
                if job.ranks.bit_count() > 1:
                    shared.setdefault(job.ranks, []).append(job)
                    continue
                rank = job.ranks.bit_length() - 1
                boxes = job.deliveries[0][1] if job.deliveries else (job.box,)
                schedule.own[rank] += [(part, box) for box in boxes]
    loads = [sum(b.elements * itemsizes[part] for part, b in boxes) for boxes in schedule.own]
    assigned: list[list[_Job]] = [[] for _ in needs]
    for ranks in sorted(shared, key=lambda ranks: (ranks.bit_count(), ranks)):
        members = members_of(ranks)
        total = sum(job.nbytes for job in shared[ranks])
        limit = min(bucket, max(min_unit, -(-total // len(members))))
        units = [cut for job in shared[ranks] for cut in _cut(job, itemsizes[job.part], limit)]
        for reader, unit in _assign(units, members, loads):
            assigned[reader].append(unit)
    for reader, jobs in enumerate(assigned):
        for index, (units_read, messages) in enumerate(_buckets(reader, jobs, itemsizes, bucket)):
            if index == len(schedule.messages):
                schedule.messages.append([])
                schedule.reads.append({})
            schedule.messages[index] += messages
            schedule.reads[index][reader] = units_read
    return schedule


def _jobs(
    held: Mapping[Box, int], shape: Sequence[int], itemsize: int, min_run: int
) -> Iterator[_Job]:
    """Yield what ranks of one domain need of part 0, as boxes that do not overlap."""
    cells = _cells(held)
    grown = [(_grown(box, shape, itemsize, min_run), ranks) for box, ranks in cells]
    wider = any(box != cell for (box, _), (cell, _) in zip(grown, cells, strict=True))
    if wider:
        merged: dict[Box, int] = {}
        for box, ranks in grown:
            merged[box] = merged.get(box, 0) | ranks
        rows = _cells(merged)
        wanted = sum(box.elements for box, _ in cells)
        wider = 2 * wanted >= sum(box.elements for box, _ in rows)  # else most of it is for nobody
    if not wider:
        for box, ranks in cells:
            yield _Job(0, box, box.elements * itemsize, ranks)
        return
    for box, _ in rows:
        inside = [(found, held) for one, held in cells if (found := one.common(box)) is not None]
        ranks = 0
        for _, owners in inside:
            ranks |= owners
        if ranks:
            deliveries = _deliveries(box, ranks, inside)
            yield _Job(0, box, box.elements * itemsize, ranks, deliveries)


def _deliveries(box: Box, ranks: int, inside: Sequence[tuple[Box, int]]) -> _Deliveries:
    """Return which ranks need which parts of a box. Empty: all ranks need the whole box."""
    if all(owners == ranks for _, owners in inside) and box.elements == sum(
        common.elements for common, _ in inside
    ):
        return ()
    together: dict[tuple[Box, ...], int] = {}
    for rank in members_of(ranks):
        boxes = tuple(common for common, owners in inside if owners >> rank & 1)
        together[boxes] = together.get(boxes, 0) | 1 << rank
    return tuple((mask, boxes) for boxes, mask in together.items())


def _grown(box: Box, shape: Sequence[int], itemsize: int, min_run: int) -> Box:
    """Return a box with longer pieces: of at least `min_run` bytes, or with one piece."""
    offsets, sizes = list(box.offsets), list(box.sizes)
    run = itemsize
    for dim in reversed(range(len(sizes))):
        run *= sizes[dim]
        if all(size == 1 for size in sizes[:dim]) or run >= min_run:
            break
        run = run // sizes[dim] * shape[dim]
        offsets[dim], sizes[dim] = 0, shape[dim]
    return Box(tuple(offsets), tuple(sizes))


def members_of(ranks: int) -> tuple[int, ...]:
    """Return the ranks of a bit mask, in order."""
    return tuple(rank for rank in range(ranks.bit_length()) if ranks >> rank & 1)


def _holders(needs: Sequence[Needs]) -> dict[int, dict[Box, int]]:
    """Return per part each different box, and the ranks that need it. Empty boxes do not count."""
    held: dict[int, dict[Box, int]] = {}
    for rank, parts in enumerate(needs):
        for part, boxes in parts.items():
            known = held.setdefault(part, {})
            for box in boxes:
                if box.elements:
                    known[box] = known.get(box, 0) | 1 << rank
    return held


def _cells(held: Mapping[Box, int]) -> list[tuple[Box, int]]:
    """Cut boxes into boxes that do not overlap. Each one has the ranks that need it, in file order."""
    boxes = sorted(held.items())
    dims = range(len(boxes[0][0].sizes)) if boxes else range(0)
    # Most cuts are along one dimension. Along it, only boxes that are open at the same time can
    # overlap.
    sweep = max(dims, key=lambda dim: len({box.offsets[dim] for box, _ in boxes}), default=None)
    if sweep is None:
        return boxes
    boxes.sort(key=lambda one: (one[0].offsets[sweep], one[0]))
    closed: list[tuple[Box, int]] = []
    opened: list[tuple[Box, int]] = []
    for box, ranks in boxes:
        begin = box.offsets[sweep]
        still: list[tuple[Box, int]] = []
        for cell in opened:
            ends = cell[0].offsets[sweep] + cell[0].sizes[sweep]
            (still if ends > begin else closed).append(cell)
        opened = _add(still, box, ranks)
    return sorted(closed + opened)


def _add(cells: list[tuple[Box, int]], box: Box, ranks: int) -> list[tuple[Box, int]]:
    """Add a box to cells that do not overlap."""
    found: list[tuple[Box, int]] = []
    rest = [box]
    for cell, owners in cells:
        common = cell.common(box)
        if common is None:
            found.append((cell, owners))
            continue
        found.append((common, owners | ranks))
        found += [(other, owners) for other in _without(cell, common)]
        rest = [other for one in rest for other in _without(one, common)]
    return found + [(one, ranks) for one in rest]


def _without(box: Box, other: Box) -> Iterator[Box]:
    """Yield boxes with the elements of a box that another one does not have."""
    inner = box.common(other)
    if inner is None:
        yield box
        return
    offsets, sizes = list(box.offsets), list(box.sizes)
    for dim, (begin, size) in enumerate(zip(*inner, strict=True)):
        end = offsets[dim] + sizes[dim]
        for low, high in ((offsets[dim], begin), (begin + size, end)):
            if low < high:
                yield Box(
                    (*offsets[:dim], low, *offsets[dim + 1 :]),
                    (*sizes[:dim], high - low, *sizes[dim + 1 :]),
                )
        offsets[dim], sizes[dim] = begin, size


def _cut(job: _Job, itemsize: int, limit: int) -> Iterator[_Job]:
    """Cut a box into boxes of at most `limit` bytes, along the first dimensions."""
    box, nbytes = job.box, job.nbytes
    if nbytes <= limit or nbytes <= itemsize:
        yield job
        return
    dim = next(dim for dim, size in enumerate(box.sizes) if size > 1)
    size = box.sizes[dim]
    per_index = nbytes // size
    count = -(-nbytes // limit)  # equal parts: no small rest
    step = max(1, min(-(-size // count), limit // per_index))
    for begin in range(0, size, step):
        taken = min(step, size - begin)
        offsets = (*box.offsets[:dim], box.offsets[dim] + begin, *box.offsets[dim + 1 :])
        sizes = (*box.sizes[:dim], taken, *box.sizes[dim + 1 :])
        inside = _inside(job, Box(offsets, sizes), per_index * taken)
        if inside.deliveries or not job.deliveries:  # else nobody needs an element of it
            yield from _cut(inside, itemsize, limit)


def _inside(job: _Job, box: Box, nbytes: int) -> _Job:
    """Return the part of a job that lies in a box."""
    deliveries = []
    for ranks, boxes in job.deliveries:
        found = tuple(common for one in boxes if (common := one.common(box)) is not None)
        if found:
            deliveries.append((ranks, found))
    return job._replace(box=box, nbytes=nbytes, deliveries=tuple(deliveries))


def _assign(
    jobs: Sequence[_Job], members: Sequence[int], loads: list[int]
) -> Iterator[tuple[int, _Job]]:
    """Yield a reader and its job for each job. Each reader gets a range of them. Adds to the loads."""
    quotas = _quotas(sum(job.nbytes for job in jobs), [loads[rank] for rank in members])
    index, end, position = 0, quotas[0], 0
    for job in jobs:
        middle = position + job.nbytes / 2
        while middle >= end and index + 1 < len(members):
            index += 1
            end += quotas[index]
        position += job.nbytes
        loads[members[index]] += job.nbytes
        yield members[index], job


def _quotas(total: int, loads: Sequence[int]) -> list[float]:
    """Return what each rank adds to its load so that the smallest loads become equal."""
    low = sorted(loads)
    level, spent = float(low[0]), 0.0
    for count in range(1, len(low) + 1):
        spent += low[count - 1]
        level = (total + spent) / count  # of the `count` smallest loads
        if count == len(low) or level <= low[count]:
            break
    return [max(0.0, level - load) for load in loads]


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _buckets(
    reader: int, jobs: Sequence[_Job], itemsizes: Sequence[int], bucket: int
) -> Iterator[tuple[list[Unit], list[Message]]]:
    """Yield the units and the messages of each bucket of a reader."""
    found: list[tuple[Unit, _Job]] = []
    offset = 0
    for job in jobs:
        if found and offset + job.nbytes > bucket:
            yield [unit for unit, _ in found], _messages(reader, found, itemsizes)
            found, offset = [], 0
        found.append((Unit(job.part, job.box, job.nbytes, offset), job))
        offset = _aligned(offset + job.nbytes)
    if found:
        yield [unit for unit, _ in found], _messages(reader, found, itemsizes)


def _messages(
    reader: int, found: Sequence[tuple[Unit, _Job]], itemsizes: Sequence[int]
) -> list[Message]:
    """Return the messages of a bucket."""
    whole: list[tuple[int, list[Unit]]] = []
    parts: dict[int, list[tuple[Unit, Box]]] = {}
    last = -1  # the ranks of the unit before, if they need all of it
    for unit, job in found:
        if not job.deliveries:
            if last != job.ranks:
                whole.append((job.ranks, []))
            whole[-1][1].append(unit)
        last = -1 if job.deliveries else job.ranks
        for ranks, boxes in job.deliveries:
            if ranks >> reader & 1:
                whole.append((1 << reader, [unit]))
            if others := ranks & ~(1 << reader):
                parts.setdefault(others, []).extend((unit, box) for box in boxes)
    messages = [Message(reader, members_of(ranks), tuple(units)) for ranks, units in whole]
    for ranks, pairs in parts.items():
        packed, offset = [], 0
        for unit, box in pairs:
            nbytes = box.elements * itemsizes[unit.part]
            packed.append(Unit(unit.part, box, nbytes, offset))
            offset = _aligned(offset + nbytes)
        sources = tuple(unit for unit, _ in pairs)
        messages.append(Message(reader, members_of(ranks), tuple(packed), sources))
    return messages
