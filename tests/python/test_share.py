"""Shared reads: the schedule without processes, and ranks that share on one machine and on a slow file system."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import slow_files
from conftest import framework

torch = framework("torch")

import rank_tests  # noqa: E402
import ranks  # noqa: E402
import ranks_share  # noqa: E402

from safetensors._ranks.boxes import Box  # noqa: E402
from safetensors._ranks.share_choice import check_share, choose, file_system_of  # noqa: E402
from safetensors._ranks.share_plan import Schedule, make_schedule  # noqa: E402
from safetensors.distributed import StorageReader, load_sharded  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

results, test_ranks, test_ranks_survive_the_death_of_one = rank_tests.make(ranks_share)


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.parametrize("case", ["ends_with_a_rank_that_reads", "ends_with_a_rank_that_cannot_plan"])
def test_no_rank_waits_for_one_that_has_ended(tmp_path: Path, world_size: int, case: str) -> None:
    found = ranks.run("ranks_share", world_size, tmp_path, [case])[case]
    assert list(found) == [world_size - 1] and found[world_size - 1].startswith("did not run"), found


def test_ranks_pass_the_checks_of_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch compares the operations of all ranks."""
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    cases = ["loads_random_boxes", "loads_on_two_machines", "serves_ranks_that_need_nothing", "names_the_rank_that_was_cancelled"]
    assert ranks.run("ranks_share", 4, tmp_path, cases) == {case: {} for case in cases}


# --- on a slow file system ---


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[slow_files.Mounted]:
    """A file system without page cache: each read of each rank is a request, as if it had its own machine."""
    reason = slow_files.why_not()
    if reason:
        pytest.skip(f"no FUSE file system can be mounted: {reason}")
    (tmp_path / "source").mkdir()
    (tmp_path / "mounted").mkdir()
    save_file(ranks_share.large(), tmp_path / "source" / "model.safetensors", durability="none")
    with slow_files.mounted(tmp_path / "source", tmp_path / "mounted", cached=False) as files:
        yield files


def run_slow(mount: slow_files.Mounted, world_size: int, case: str) -> dict[str, int]:
    """Runs a case with the mounted folder as its folder. Returns the requests."""
    folder = mount.path.parent / f"{case}{world_size}"
    folder.mkdir()
    (folder / case).symlink_to(mount.path)
    mount.counts()
    assert ranks.run("ranks_share", world_size, folder, [case]) == {case: {}}
    return mount.counts()


@pytest.mark.parametrize("world_size", [2, 4])
@pytest.mark.parametrize("kind", ["files", "columns"])
def test_auto_shares_on_a_user_space_file_system(mount: slow_files.Mounted, world_size: int, kind: str) -> None:
    alone = run_slow(mount, world_size, f"loads_slow_{kind}_alone")
    shared = run_slow(mount, world_size, f"loads_slow_{kind}_by_choice")
    size = (mount.source / "model.safetensors").stat().st_size
    assert alone["bytes"] >= world_size * (size - 65536), (alone, shared)
    assert shared["bytes"] <= 1.02 * size + 65536, (alone, shared)
    assert shared["read"] <= 1.25 * alone["read"] / world_size + 16, (alone, shared)


def test_errors_of_the_server_are_named(mount: slow_files.Mounted) -> None:
    mount.set(fail_from=20 << 20)
    run_slow(mount, 4, "names_the_failure_of_the_server")


# --- the choice ---

MOUNTS = """\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
23 22 0:40 / /data rw shared:3 - nfs4 server:/data rw
24 23 0:41 / /data/my\\040own rw - fuse.sshfs host: rw
25 22 0:42 / /lustre rw - lustre mgs:/fs rw
26 22 0:43 / /over rw - nfs server:/over rw
27 26 0:44 / /over rw - tmpfs none rw
broken
28 22 0:45 / /fuse rw - fuse thing rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "share"),
    [
        ("/models/x/model.safetensors", "ext4", "never"),
        ("/", "ext4", "never"),
        ("/data/x", "nfs4", "group"),
        ("/database/x", "ext4", "never"),
        ("/data/my own/x", "fuse.sshfs", "group"),
        ("/lustre/x", "lustre", "group"),
        ("/over/x", "tmpfs", "never"),
        ("/fuse", "fuse", "group"),
    ],
)
def test_chooses_by_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, kind: str, share: str) -> None:
    (tmp_path / "mounts").write_text(MOUNTS)
    assert file_system_of(path, str(tmp_path / "mounts")) == kind
    monkeypatch.setattr("safetensors._ranks.share_choice.file_system_of", lambda path: kind)
    choice = choose("auto", path, 4)
    assert choice.share == share and kind in choice.reason


def test_choices_have_reasons(tmp_path: Path) -> None:
    assert choose("group", "/x", 1).reason == "there is one rank"
    assert choose("node", "/x", 2).share == "node" and choose("node", "/x", 2).reason == 'the argument is "node"'
    assert choose("auto", None, 2).reason == "the file system is unknown"
    assert file_system_of("/x", str(tmp_path / "nothing")) is None
    text = "share 'all' is invalid \\(expected one of: \"auto\", \"never\", \"node\", \"group\"\\)"
    for call in (check_share, lambda share: StorageReader("x", share=share), lambda share: load_sharded({}, "x", share=share)):
        with pytest.raises(ValueError, match=text):
            call("all")


# --- the schedule ---


def random_box(choose: random.Random, shape: tuple[int, ...]) -> Box:
    begins = [choose.randint(0, n) for n in shape]
    return Box(tuple(begins), tuple(choose.randint(0, n - b) for n, b in zip(shape, begins, strict=True)))


def column(shape: tuple[int, ...], ordinal: int) -> Box:
    return Box((*(0 for _ in shape[1:]), min(ordinal, shape[-1] - 1)), (*shape[:-1], 1))


def index(box: Box) -> tuple[slice, ...]:
    return tuple(slice(o, o + n) for o, n in zip(*box, strict=True))


def check_messages(schedule: Schedule, itemsizes: list[int], bucket: int) -> None:
    """Units lie one after the other in their buckets and messages, aligned. Messages have what the bucket has."""
    assert len(schedule.reads) == len(schedule.messages)
    for reads, messages in zip(schedule.reads, schedule.messages, strict=True):
        for units in [*reads.values(), *(message.units for message in messages)]:
            end = units[0].offset
            for unit in units:
                assert unit.offset % 64 == 0 and unit.offset >= end and unit.nbytes == unit.box.elements * itemsizes[unit.part] > 0
                end = unit.offset + unit.nbytes
        assert all(units[-1].offset + units[-1].nbytes <= bucket for units in reads.values())
        for message in messages:
            assert len(set(message.ranks)) == len(message.ranks) > 0
            assert set(message.sources or message.units) <= set(reads[message.reader])
            if message.sources:
                assert message.begin == 0 and message.reader not in message.ranks
                pairs = zip(message.units, message.sources, strict=True)
                assert all(unit.part == source.part and unit.box.common(source.box) == unit.box for unit, source in pairs)


def counted(shapes: list[tuple[int, ...]], boxes: list[tuple[int, Box]]) -> list[Any]:
    """Count how often each element of each part is in the boxes."""
    counts = [np.zeros(shape, int) for shape in shapes]
    for part, box in boxes:
        counts[part][index(box)] += 1
    return counts


def check_schedule(needs: list[Any], shapes: list[tuple[int, ...]], domains: list[int], schedule: Schedule, exact: bool) -> None:
    """Counts element by element what ranks need, get and read."""
    read = {domain: [np.zeros(shape, int) for shape in shapes] for domain in domains}
    wanted = [counted(shapes, [(part, box) for part, boxes in parts.items() for box in boxes]) for parts in needs]
    messages = [message for found in schedule.messages for message in found]
    for rank, parts in enumerate(wanted):
        own = counted(shapes, schedule.own[rank])
        got = counted(shapes, [(unit.part, unit.box) for m in messages if rank in m.ranks for unit in m.units])
        for part, want in enumerate(parts):
            both = own[part] + got[part]
            # The reader of a unit may get more of it than it needs: it has all of it.
            assert np.array_equal(both > 0, want > 0) if exact else np.all((both > 0) >= (want > 0)), (needs, schedule)
            assert both.max(initial=0) <= 1, (needs, schedule)
            read[domains[rank]][part] += own[part]
    for units in schedule.reads:
        for rank, found in units.items():
            for part, count in enumerate(counted(shapes, [(unit.part, unit.box) for unit in found])):
                read[domains[rank]][part] += count
    for message in messages:
        assert len({domains[rank] for rank in (message.reader, *message.ranks)}) == 1
    for domain, counts in read.items():
        for part, count in enumerate(counts):
            anyone = np.any([wanted[rank][part] for rank in range(len(needs)) if domains[rank] == domain], axis=0)
            assert count.max(initial=0) <= 1 and np.all(count >= anyone), (needs, schedule)
            assert np.array_equal(count, anyone) if exact else count.sum() <= 2 * anyone.sum(), (needs, schedule)


def test_schedules_give_each_rank_what_it_needs_once() -> None:
    """Boxes of all kinds, on one and on several machines."""
    choose = random.Random(11)
    packed = 0
    for _ in range(1500):
        count, bucket, min_unit = choose.randint(1, 6), choose.choice([16, 100, 5000]), choose.choice([1, 8, 64])
        shapes = [tuple(choose.randint(1, 5) for _ in range(choose.randint(0, 3))) for _ in range(choose.randint(1, 4))]
        itemsizes = [choose.choice([1, 2, 8, 16]) for _ in shapes]
        known = [[random_box(choose, shape) for _ in range(3)] for shape in shapes]
        needs = [{part: choose.sample(boxes, choose.randint(0, 2)) for part, boxes in enumerate(known)} for _ in range(count)]
        for rank, parts in enumerate(needs):  # some parts are cut by columns
            parts.update({part: [column(shape, rank // 2)] for part, shape in enumerate(shapes) if len(shape) > 1 and part % 2})
        domains = [choose.randint(0, 1) for _ in needs] if choose.random() < 0.5 else [0] * count
        schedule = make_schedule(needs, shapes, itemsizes, domains, bucket, min_unit)
        check_messages(schedule, itemsizes, bucket)
        check_schedule(needs, shapes, domains, schedule, min_unit == 1)
        packed += sum(bool(message.sources) for found in schedule.messages for message in found)
    assert packed > 100


def test_columns_are_read_as_rows() -> None:
    """Two groups of four ranks, each with a fourth of the columns: HSDP with tensor parallelism."""
    needs = [{0: [Box((0, 512 * (rank % 4)), (1024, 512))]} for rank in range(8)]
    schedule = make_schedule(needs, [(1024, 2048)], [2], [0] * 8, 8 << 20)
    read = {rank: unit.nbytes for reads in schedule.reads for rank, units in reads.items() for unit in units}
    assert len(read) >= 4 and sum(read.values()) == 4 << 20 and not any(schedule.own)
    for message in (message for found in schedule.messages for message in found):
        assert len({rank % 4 for rank in message.ranks}) == 1
        assert not message.sources or message.end - message.begin == read[message.reader] // 4
    # One rank needs few columns, and no other rank needs the others: they are not read.
    lone = make_schedule([{0: [Box((0, 0), (1024, 8))]}, {0: [Box((0, 0), (1024, 8))]}], [(1024, 2048)], [2], [0, 0], 8 << 20)
    assert sum(unit.nbytes for reads in lone.reads for units in reads.values() for unit in units) == 1024 * 8 * 2


@pytest.mark.parametrize("count", [2, 8, 64])
def test_readers_read_the_same_number_of_bytes(count: int) -> None:
    """A model that all ranks need, and tensors that only the first ranks need."""
    layer = Box((0, 0), (1024, 1024))
    needs = [{part: [layer] for part in range(80)} | ({80: [layer]} if rank < 2 else {}) for rank in range(count)]
    schedule = make_schedule(needs, [layer.sizes] * 81, [4] * 81, [0] * count, 8 << 20)
    read = [0] * count
    for rank, units in (pair for reads in schedule.reads for pair in reads.items()):
        read[rank] += sum(unit.nbytes for unit in units)
    assert sum(read) == 81 * layer.elements * 4
    assert max(read) - min(read) <= 8 << 20, read
    assert len(schedule.messages) <= math.ceil(max(read) / (4 << 20))


def test_large_meshes_take_no_quadratic_time() -> None:
    """2048 ranks with rows of their own, and one rank that needs all of them."""
    count = 2048
    needs: list[dict[int, list[Box]]] = [{0: [Box((8 * rank, 0), (8, 64))]} for rank in range(count)]
    needs[5][0].append(Box((0, 0), (8 * count, 64)))
    schedule = make_schedule(needs, [(8 * count, 64)], [2], [0] * count, 1 << 20)
    assert sum(len(boxes) for boxes in schedule.own) == 1
    assert sum(len(message.units) for messages in schedule.messages for message in messages) == count - 1
