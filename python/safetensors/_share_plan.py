"""Who reads which bytes for whom: a pure function of what each rank needs. All ranks compute the same.

1. The boxes that ranks need of one part are cut into boxes that do not overlap (cells). A cell has a set of
   ranks that need all of it, and no other rank needs an element of it.
2. A cell that one rank of a domain needs is read by this rank, straight into its tensor. A domain is a
   machine, or the whole group.
3. The other cells are cut into units of at most a bucket. For each set of ranks, the units go to readers
   out of the set, in the order of the file, so that all ranks read about the same number of bytes.
4. The units of a reader fill buckets. Round r has the bucket r of each reader. Within a bucket, the units
   that the same ranks need are adjacent: they are one message.

Sets of ranks are bit masks: bit r stands for rank r.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ._boxes import Box

__all__ = ["MIN_UNIT", "Message", "Schedule", "Unit", "make_schedule"]

MIN_UNIT = 1 << 20  # bytes: smaller requests cost more than they give other readers to do
_ALIGNMENT = 64  # of a unit in its bucket, in bytes

Needs = Mapping[int, Sequence[Box]]  # per part: the boxes that a rank needs


class Unit(NamedTuple):
    """Elements that one rank reads for several. `offset`: of their bytes in the bucket of the reader."""

    part: int
    box: Box
    nbytes: int
    offset: int


class Message(NamedTuple):
    """Adjacent units of a bucket that the same ranks need. `ranks` has the reader if it needs them."""

    reader: int
    ranks: tuple[int, ...]
    units: tuple[Unit, ...]

    @property
    def begin(self) -> int:
        """The offset of the first byte in the bucket of the reader."""
        return self.units[0].offset

    @property
    def end(self) -> int:
        """The offset past the last byte in the bucket of the reader."""
        return self.units[-1].offset + self.units[-1].nbytes


@dataclass(slots=True)
class Schedule:
    """`own`: per rank, the boxes that it reads for itself. `rounds`: the messages, in their order."""

    own: list[list[tuple[int, Box]]]
    rounds: list[list[Message]] = field(default_factory=list)


_Cut = tuple[int, Box, int]  # a part, a box of it, and its bytes


def make_schedule(
    needs: Sequence[Needs],
    itemsizes: Sequence[int],
    domains: Sequence[Hashable],
    bucket: int,
    min_unit: int = MIN_UNIT,
) -> Schedule:
    """Return the schedule. `needs`: per rank. `itemsizes`: bytes per element, per part.

    `domains`: per rank. Ranks of one domain share reads. `bucket`: maximum bytes of a bucket, which has
    space for an element. `min_unit`: units are not made smaller than this to spread them over readers.
    """
    schedule = Schedule([[] for _ in needs])
    loads = [0] * len(needs)
    shared: dict[int, list[_Cut]] = {}
    masks: dict[Hashable, int] = {}
    for rank, domain in enumerate(domains):
        masks[domain] = masks.get(domain, 0) | 1 << rank
    for part, held in sorted(_holders(needs).items()):
        for box, ranks in _cells(held):
            nbytes = box.elements * itemsizes[part]
            for mask in masks.values():
                several = ranks & mask
                if several.bit_count() > 1:
                    shared.setdefault(several, []).append((part, box, nbytes))
                elif several:
                    rank = several.bit_length() - 1
                    schedule.own[rank].append((part, box))
                    loads[rank] += nbytes
    assigned: list[list[tuple[int, _Cut]]] = [[] for _ in needs]
    for ranks in sorted(shared, key=lambda ranks: (ranks.bit_count(), ranks)):
        members = members_of(ranks)
        total = sum(nbytes for *_, nbytes in shared[ranks])
        limit = min(bucket, max(min_unit, -(-total // len(members))))
        units = [cut for one in shared[ranks] for cut in _cut(one, itemsizes[one[0]], limit)]
        for reader, unit in _assign(units, members, loads):
            assigned[reader].append((ranks, unit))
    schedule.rounds = _rounds(assigned, bucket)
    return schedule


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
    # Most cuts are along one dimension: along it, only boxes that are open at once can overlap.
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


def _cut(cut: _Cut, itemsize: int, limit: int) -> Iterator[_Cut]:
    """Cut a box into boxes of at most `limit` bytes, along the first dimensions."""
    part, box, nbytes = cut
    if nbytes <= limit or nbytes <= itemsize:
        yield cut
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
        yield from _cut((part, Box(offsets, sizes), per_index * taken), itemsize, limit)


def _assign(
    units: Sequence[_Cut], members: Sequence[int], loads: list[int]
) -> Iterator[tuple[int, _Cut]]:
    """Yield each unit and its reader. Each reader gets a range of the units. Adds to the loads."""
    quotas = _quotas(sum(nbytes for *_, nbytes in units), [loads[rank] for rank in members])
    index, end, position = 0, quotas[0], 0
    for unit in units:
        middle = position + unit[2] / 2
        while middle >= end and index + 1 < len(members):
            index += 1
            end += quotas[index]
        position += unit[2]
        loads[members[index]] += unit[2]
        yield members[index], unit


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


def _rounds(assigned: Sequence[Sequence[tuple[int, _Cut]]], bucket: int) -> list[list[Message]]:
    rounds: list[list[Message]] = []
    for reader, units in enumerate(assigned):
        for index, messages in enumerate(_buckets(reader, units, bucket)):
            if index == len(rounds):
                rounds.append([])
            rounds[index] += messages
    return rounds


def _buckets(
    reader: int, units: Sequence[tuple[int, _Cut]], bucket: int
) -> Iterator[list[Message]]:
    """Yield the messages of each bucket of a reader."""
    messages: list[tuple[int, list[Unit]]] = []
    offset = 0
    for ranks, (part, box, nbytes) in units:
        if messages and offset + nbytes > bucket:
            yield [Message(reader, members_of(mask), tuple(found)) for mask, found in messages]
            messages, offset = [], 0
        if not messages or messages[-1][0] != ranks:
            messages.append((ranks, []))
        messages[-1][1].append(Unit(part, box, nbytes, offset))
        offset = -(-(offset + nbytes) // _ALIGNMENT) * _ALIGNMENT
    if messages:
        yield [Message(reader, members_of(mask), tuple(found)) for mask, found in messages]
