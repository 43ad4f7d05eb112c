"""What ranks do with shared reads. Each function is a case: see ranks.py."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ranks_dcp import Temporary, bytes_read, check_equal, cut, failures, last, local, meshes, save_plain, save_shards, whole, zeroed
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, ReadItem
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from safetensors import SafetensorError
from safetensors._ranks import share as _share
from safetensors._ranks import share_exchange as _share_exchange
from safetensors.distributed import LoadReport, RankError, StorageReader, load_sharded
from safetensors.torch import save_file

MIB = 1 << 20


def load_both_ways(path: Path, expected: dict[str, Any], **options: Any) -> None:
    """By dcp.load and by load_sharded."""
    state = zeroed(expected)
    dcp.load(state, storage_reader=StorageReader(path, **options))
    check_equal(state, expected)
    state = zeroed(expected)
    load_sharded(state, path, **options)
    check_equal(state, expected)


def two_machines() -> None:
    """From now on, the first half of the ranks and the others are on different machines."""
    name = f"machine {2 * dist.get_rank() // dist.get_world_size()}"
    _share.machine = lambda: name


def total(number: int) -> int:
    """The sum over all ranks."""
    value = torch.tensor([number])
    dist.all_reduce(value)
    return int(value.item())


# --- values ---


def loads_what_each_rank_loads_alone(folder: Path) -> None:
    save_plain(folder, whole())
    for mesh in meshes():
        for seed in range(3):
            load_both_ways(folder, cut(whole(), mesh, seed), share="group")
    load_both_ways(folder, whole(), share="group", threads=1, memory_limit=1, cache="fill")
    full = {name: tensor for name, tensor in whole().items() if tensor.dtype != torch.bfloat16}
    load_both_ways(save_shards(folder / "shards", full), full, share="group")


def loads_on_two_machines(folder: Path) -> None:
    save_plain(folder, whole())
    two_machines()
    for mesh in meshes():
        load_both_ways(folder, cut(whole(), mesh, 4), share="node")
    load_both_ways(folder, whole(), share="node")


def loads_random_boxes(folder: Path) -> None:
    """Each rank needs a box of its own of each tensor: boxes overlap, are equal, or are empty."""
    full = {f"t{i}": torch.arange(31 * 17 * (i + 1), dtype=torch.int32).reshape(31, 17, i + 1) for i in range(4)}
    save_plain(folder, full)
    for seed in range(6):
        choose = random.Random(seed * 100 + dist.get_rank())
        state, expected = {}, {}
        for name, tensor in full.items():
            if choose.random() < 0.2:
                continue
            begins = [choose.randint(0, n // 2) for n in tensor.shape]
            ends = [choose.randint(begin, n) for begin, n in zip(begins, tensor.shape, strict=True)]
            expected[name] = tensor[tuple(slice(b, e) for b, e in zip(begins, ends, strict=True))]
            state[name] = begins, torch.zeros(expected[name].shape, dtype=torch.int32)
        dcp.load({name: target for name, (_, target) in state.items()}, storage_reader=StorageReader(folder, share="group"), planner=Boxes(state))
        for name, (_, target) in state.items():
            assert torch.equal(target, expected[name]), name


class Boxes(Temporary):
    """Loads boxes, which are the shapes of the tensors, at given offsets."""

    def __init__(self, boxes: dict[str, Any]) -> None:
        super().__init__()
        self._boxes = boxes

    def create_local_plan(self) -> Any:
        items = []
        for name, (begins, target) in self._boxes.items():
            zeros = torch.Size([0] * target.dim())
            items.append(ReadItem(LoadItemType.TENSOR, MetadataIndex(name), zeros, MetadataIndex(name, zeros), torch.Size(begins), target.shape))
        return LoadPlan(items)

    def resolve_tensor(self, read_item: Any) -> Any:
        return self._boxes[read_item.dest_index.fqn][1]

    def commit_tensor(self, read_item: Any, tensor: Any) -> None:
        self.committed.append(read_item)


def casts_as_a_plan_does(folder: Path) -> None:
    generator = torch.Generator().manual_seed(3)
    values = torch.cat([torch.randn(500, generator=generator) * 10**e for e in range(-9, 9, 2)] + [torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0])])
    dtypes = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]
    full = {str(dtype): values.to(dtype) for dtype in dtypes} | {"ids": torch.arange(30).reshape(5, 6), "mask": torch.tensor([True, False])}
    save_plain(folder, full)
    others = {"ids": torch.zeros(5, 12, dtype=torch.int16)[:, ::2], "mask": torch.zeros(2)}
    for dtype in dtypes:
        states = [{name: torch.zeros(2 * len(values), dtype=dtype)[::2] if "torch" in name else others[name].clone() for name in full} for _ in range(2)]
        load_sharded(states[0], folder, share="never")
        load_sharded(states[1], folder, share="group")
        for name in full:
            one, other = (state[name].contiguous().view(torch.uint8) for state in states)
            assert torch.equal(one, other), (name, dtype)


def keeps_packed_dtypes(folder: Path) -> None:
    packed = torch.arange(24, dtype=torch.uint8).reshape(4, 6).view(torch.float4_e2m1fn_x2)
    full = {"f4": packed, "scale": torch.arange(8, dtype=torch.uint8).view(torch.float8_e8m0fnu), "c": torch.randn(3, dtype=torch.complex64), "u": torch.arange(5).to(torch.uint16)}
    dist.broadcast(full["c"], 0)
    save_plain(folder, full)
    state = {name: torch.zeros(t.numel() * t.element_size(), dtype=torch.uint8).view(t.dtype).reshape(t.shape) for name, t in full.items()}
    load_sharded(state, folder, share="group")
    for name, tensor in full.items():
        assert torch.equal(state[name].reshape(-1).view(torch.uint8), tensor.reshape(-1).view(torch.uint8)), name


def loads_with_a_limit_per_rank(folder: Path) -> None:
    save_plain(folder, large())
    for limit in ("1MiB" if dist.get_rank() == 0 else "256MiB", MIB if dist.get_rank() == last() else 0):
        load_both_ways(folder, large(), share="group", memory_limit=limit)


def loads_where_meta_is_the_default_device(folder: Path) -> None:
    save_plain(folder, whole())
    for full in (whole(), cut(whole(), meshes()[0], 2)):
        state, other = zeroed(full), zeroed(whole())
        with torch.device("meta"):
            load_sharded(state, folder, share="group")
            dcp.load(other, storage_reader=StorageReader(folder, share="group"))  # torch cannot plan DTensors so
        check_equal(state, full)
        check_equal(other, whole())


def fills_inference_and_tied_tensors(folder: Path) -> None:
    full = {"a": torch.ones(4, 4), "b": torch.full((4, 4), 2.0), "c": torch.arange(6.0), "d": torch.ones(2, 3)}
    save_plain(folder, full)
    tied = torch.zeros(4, 4)
    with torch.inference_mode():
        inferred = torch.zeros(6)
    other = torch.zeros(2, 3)
    version = tied._version
    load_sharded({"a": tied, "b": tied, "c": inferred, "d": other}, folder, share="group")
    assert torch.equal(other, full["d"]) and other._version > 0  # autograd knows
    assert torch.equal(tied, full["b"]) and tied._version > version and torch.equal(inferred, full["c"])


def commits_each_item_once(folder: Path) -> None:
    full = {name: t for name, t in whole().items() if t.dtype != torch.bool}
    save_plain(folder, full)
    expected = cut(full, meshes()[0], 1)
    state, planner = zeroed(expected), Temporary()
    dcp.load(state, storage_reader=StorageReader(folder, share="group"), planner=planner)
    check_equal(state, expected)
    fqns = [item.dest_index.fqn for item in planner.committed]
    assert len(set(fqns)) == len(fqns) and set(fqns) == {n for n, t in expected.items() if local(t).numel()}


def loads_what_other_ranks_saved(folder: Path) -> None:
    full = {name: t for name, t in whole().items() if t.dim() and t.numel()}
    for seed, saving in enumerate(meshes()):
        own = folder / str(seed)
        dcp.save(cut(full, saving, seed), storage_writer=HuggingFaceStorageWriter(str(own), save_distributed=True))
        for mesh in meshes():
            load_both_ways(own, cut(full, mesh, 50 + seed), share="group")


def loads_in_a_part_of_the_ranks(folder: Path) -> None:
    """A group without rank 0: its ranks have other numbers than in the whole group."""
    save_plain(folder, whole())
    members = list(range(1, dist.get_world_size())) or [0]
    group = dist.new_group(members)
    if dist.get_rank() in members:
        state = zeroed(whole())
        reader = StorageReader(folder, share="group", process_group=group)
        dcp.load(state, storage_reader=reader, process_group=group)
        check_equal(state, whole())
        assert reader.report is not None and reader.report.share == ("never" if len(members) == 1 else "group")
    mesh = DeviceMesh("cpu", members)
    if dist.get_rank() in members:
        for given in ([Shard(1)], [Replicate()]):
            expected = {name: distribute_tensor(t, mesh, given, src_data_rank=None) for name, t in whole().items() if t.dim() > 1}
            state = zeroed(expected)
            load_sharded(state, folder, strict=False, share="group", process_group=group)
            check_equal(state, expected)
    dist.barrier()


def serves_ranks_that_need_nothing(folder: Path) -> None:
    """Only some ranks need tensors, and those need all of them."""
    save_plain(folder, whole())
    for needing in ([0], [last()], list(range(0, dist.get_world_size(), 2))):
        mesh = DeviceMesh("cpu", needing)
        found: list[LoadReport] = []
        made = load_sharded(None, folder, mesh=mesh, placements={}, share="group", report=found.append)
        if dist.get_rank() in needing:
            for name, tensor in whole().items():
                assert torch.equal(made[name].to_local(), tensor), name
        size = sum(t.nbytes for t in whole().values())
        assert total(found[0].bytes_read) == size, found
        assert found[0].bytes_needed == (size if dist.get_rank() in needing else 0)


# --- bytes ---


def large() -> dict[str, Any]:
    """31 MiB."""
    return {f"layer.{i}": torch.arange(i, i + 2048 * 496, dtype=torch.float32).reshape(2048, 496) for i in range(8)}


def placements() -> list[tuple[DeviceMesh | None, list[Any]]]:
    size = dist.get_world_size()
    line = init_device_mesh("cpu", (size,))
    found: list[tuple[DeviceMesh | None, list[Any]]] = [(None, []), (line, [Replicate()]), (line, [Shard(0)]), (line, [Shard(1)])]
    if size >= 4:
        plane = init_device_mesh("cpu", (2, size // 2))
        found += [(plane, [Replicate(), Shard(0)]), (plane, [Shard(0), Replicate()]), (plane, [Shard(1), Shard(0)]), (plane, [Shard(1), Replicate()])]
    return found


def reads_each_byte_once(folder: Path) -> None:
    full = large()
    save_plain(folder, full)
    size = sum(tensor.nbytes for tensor in full.values())
    for mesh, given in placements():
        expected = full if mesh is None else {n: distribute_tensor(t, mesh, given, src_data_rank=None) for n, t in full.items()}
        load_both_ways(folder, expected, share="group")  # the first load imports modules
        state, found = zeroed(expected), []
        dist.barrier()
        before = bytes_read()
        load_sharded(state, folder, share="group", cache="fill", threads=1, report=found.append)
        read = total(bytes_read() - before)
        check_equal(state, expected)
        needed = sum(local(tensor).nbytes for tensor in expected.values())
        text = f"{given}: {read} bytes of {size}, {found}"
        assert size <= read <= 1.02 * size + 65536 * dist.get_world_size(), text
        assert total(found[0].bytes_read) == size and found[0].bytes_needed == needed, text
        assert found[0].share == ("group" if dist.get_world_size() > 1 else "never"), text
        # The readers are balanced: nobody reads twice its part.
        assert found[0].bytes_read <= 1.5 * size / dist.get_world_size() + 2 * MIB, text
        dist.barrier()


def reads_each_byte_once_per_machine(folder: Path) -> None:
    full = large()
    save_plain(folder, full)
    two_machines()
    state, found = zeroed(full), []
    load_sharded(state, folder, share="node", report=found.append)
    check_equal(state, full)
    size = sum(tensor.nbytes for tensor in full.values())
    assert total(found[0].bytes_read) == min(2, dist.get_world_size()) * size, found


def keeps_to_the_memory_limit(folder: Path) -> None:
    save_plain(folder, large())
    state = zeroed(large())
    load_sharded(state, folder, share="group", memory_limit=4 * MIB)
    made: list[int] = []
    empty = torch.empty

    def counted(*args: Any, **options: Any) -> Any:
        tensor = empty(*args, **options)
        made.append(tensor.nbytes)
        return tensor

    before = peak()
    _share_exchange.torch = type("torch", (), {**vars(torch), "empty": staticmethod(counted)})
    try:
        load_sharded(state, folder, share="group", memory_limit=4 * MIB)
    finally:
        _share_exchange.torch = torch
    assert sum(made) <= 2 * MIB and (sum(made) > 0) == (dist.get_world_size() > 1), made
    assert peak() - before <= 6 * MIB, f"{before} -> {peak()}"
    check_equal(state, large())


def peak() -> int:
    """The resident memory of this process, at most, in bytes. The peak is that since the call before."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            Path("/proc/self/clear_refs").write_text("5")
            return int(line.split()[1]) * 1024
    raise AssertionError("/proc/self/status has no VmHWM")


def decides_by_the_file_system(folder: Path) -> None:
    save_plain(folder, whole())
    reader, found = StorageReader(folder), []
    assert reader.report is None
    dcp.load(zeroed(whole()), storage_reader=reader)
    load_sharded(zeroed(whole()), folder, report=found.append)
    size = sum(t.nbytes for t in whole().values())
    for report in (reader.report, found[0]):
        assert report is not None and report.share == "never", report
        assert report.reason == "there is one rank" if dist.get_world_size() == 1 else report.reason.endswith(" is a local file system"), report
        assert report.bytes_needed == report.bytes_read == size and report.bytes_received == 0 and report.seconds > 0


def rank_0_decides(folder: Path) -> None:
    save_plain(folder, whole())
    found: list[LoadReport] = []
    load_sharded(zeroed(whole()), folder, share="group" if dist.get_rank() == 0 else "never", report=found.append)
    assert found[0].share == ("group" if dist.get_world_size() > 1 else "never")


def reports_progress(folder: Path) -> None:
    save_plain(folder, large())
    seen: list[tuple[int, int]] = []
    state = zeroed(large())
    load_sharded(state, folder, share="group", progress=lambda done, total: seen.append((done, total)))
    size = sum(t.nbytes for t in large().values())
    assert seen[-1] == (size, size) and seen == sorted(seen), seen


# --- on a slow file system, which the test mounts in the folder of the case ---


def loads_slow_files_by_choice(mount: Path) -> None:
    load_slow_files(mount, "auto", "group", "fuse is a user-space file system" if dist.get_world_size() > 1 else "there is one rank")


def loads_slow_files_alone(mount: Path) -> None:
    load_slow_files(mount, "never", "never", 'the argument is "never"')


def load_slow_files(mount: Path, share: Any, chosen: str, reason: str) -> None:
    state, found = zeroed(large()), []
    load_sharded(state, mount, share=share, report=found.append)
    check_equal(state, large())
    assert (found[0].share, found[0].reason) == (chosen, reason), found


def loads_slow_columns_by_choice(mount: Path) -> None:
    load_slow_columns(mount, "auto")


def loads_slow_columns_alone(mount: Path) -> None:
    load_slow_columns(mount, "never")


def load_slow_columns(mount: Path, share: Any) -> None:
    """Each rank needs columns, which are short pieces: alone, each rank reads the gaps, too."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    expected = {n: distribute_tensor(t, mesh, [Shard(1)], src_data_rank=None) for n, t in large().items()}
    state = zeroed(expected)
    load_sharded(state, mount, share=share)
    check_equal(state, expected)


def names_the_failure_of_the_server(mount: Path) -> None:
    """The test makes the reads of the last half of the file fail."""
    found = named(lambda: load_sharded(zeroed(large()), mount))
    assert found and all("Input/output error" in text for text in found.values()), found


# --- failures ---


def named(call: Any) -> dict[int, str]:
    try:
        call()
    except RankError as error:
        return error.failures
    except Exception as error:
        return {0: f"{type(error).__name__}: {error}"}
    raise AssertionError("nothing failed")


def names_the_rank_with_a_truncated_file(folder: Path) -> None:
    """Each rank has a copy of the file. When they read, the last rank's copy has only its header."""
    for share in ("group", "node"):
        own = folder / share / str(dist.get_rank())
        own.mkdir(parents=True, exist_ok=True)
        path = own / "model.safetensors"
        save_file(large(), path, durability="none")
        if dist.get_rank() == last():
            os.truncate(path, path.stat().st_size - 20 * MIB)
        if dist.get_world_size() == 1:
            continue
        begin = time.monotonic()
        found = named(lambda: load_sharded(zeroed(large()), own, share=share))
        assert list(found) == [last()] and found[last()].startswith("SafetensorError: "), found
        found = failures(lambda: dcp.load(zeroed(large()), storage_reader=StorageReader(own, share=share)))
        assert list(found) == [last()] and isinstance(found[last()], SafetensorError), found
        assert time.monotonic() - begin < 20
    save_plain(folder, whole())
    load_both_ways(folder, whole(), share="group")  # the group is as good as before


def names_the_rank_that_was_cancelled(folder: Path) -> None:
    save_plain(folder, whole())
    for at in ("own", "shared"):
        full = whole() if at == "shared" else cut(whole(), meshes()[0], 2)

        def progress(done: int, total: int) -> None:
            if dist.get_rank() == last():
                raise KeyboardInterrupt

        found = failures(lambda: dcp.load(zeroed(full), storage_reader=StorageReader(folder, share="group", progress=progress)))
        assert {rank: type(error) for rank, error in found.items()} == {last(): KeyboardInterrupt}
    load_both_ways(folder, whole(), share="group")


class Refusing(Temporary):
    def resolve_tensor(self, read_item: Any) -> Any:
        if dist.get_rank() == last():
            raise ValueError("no memory for it")
        return super().resolve_tensor(read_item)


def names_the_rank_with_a_bad_planner(folder: Path) -> None:
    save_plain(folder, whole())
    found = failures(lambda: dcp.load(zeroed(whole()), storage_reader=StorageReader(folder, share="group"), planner=Refusing()))
    assert {rank: str(error) for rank, error in found.items()} == {last(): "no memory for it"}


def names_the_rank_without_memory(folder: Path) -> None:
    """A rank fails after it has promised to read bytes for the other ranks."""
    save_plain(folder, whole())
    for name, owner in (("reserve", _share_exchange.Exchange), ("plan", _share_exchange.BucketReader), ("_schedule", _share._Sharing)):
        method = getattr(owner, name)

        def fail(*given: Any) -> None:
            raise MemoryError("too large")

        if dist.get_rank() == last():
            setattr(owner, name, fail)
        try:
            for full in (whole(), cut(whole(), meshes()[0], 2)):
                found = named(lambda full=full: load_sharded(zeroed(full), folder, share="group")) if dist.get_world_size() > 1 else {0: "MemoryError: too large"}
                assert found == {last(): "MemoryError: too large"}, found
        finally:
            setattr(owner, name, method)
    load_both_ways(folder, whole(), share="group")


def names_the_rank_that_fails_in_a_round(folder: Path) -> None:
    """The others wait for its messages. Columns are packed."""
    save_plain(folder, large())
    columns = {n: distribute_tensor(t, meshes()[0], [Shard(1)], src_data_rank=None) for n, t in large().items()}
    exchange = _share_exchange.Exchange
    for name, full in (("_slot", large()), ("_slot", columns), ("_pack", columns), ("_deliver", large()), ("on_device", large())):
        method = getattr(exchange, name, None)

        def fail(*given: Any) -> None:
            raise MemoryError("too large")

        if dist.get_rank() == last():
            # An instance has `_deliver`: a property without a setter would hide it.
            setattr(exchange, name, fail if method else property(lambda self: fail, lambda self, given: None))
        try:
            begin = time.monotonic()
            if dist.get_world_size() > 1:
                found = named(lambda full=full: load_sharded(zeroed(full), folder, share="group"))
                assert found == {last(): "MemoryError: too large"}, (name, found)
                errors = failures(lambda full=full: dcp.load(zeroed(full), storage_reader=StorageReader(folder, share="group")))
                assert {rank: repr(error) for rank, error in errors.items()} == {last(): "MemoryError('too large')"}, (name, errors)
            assert time.monotonic() - begin < 20
        finally:
            if dist.get_rank() == last():
                setattr(exchange, name, method) if method else delattr(exchange, name)
    load_both_ways(folder, columns, share="group")  # the group is as good as before


def names_the_rank_with_a_bad_progress(folder: Path) -> None:
    save_plain(folder, whole())
    given: Any = "yes" if dist.get_rank() == last() else False
    for share in ("group", "never"):
        found = failures(lambda share=share: dcp.load(zeroed(whole()), storage_reader=StorageReader(folder, share=share, progress=given)))
        assert {rank: str(error) for rank, error in found.items()} == {last(): "progress is str: give a bool or a function"}
    load_both_ways(folder, whole(), share="group")


def names_the_rank_that_cannot_copy(folder: Path) -> None:
    save_plain(folder, {"f4": torch.zeros(4, 4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2), "w": torch.zeros(3)})
    bad = torch.zeros(4, 4) if dist.get_rank() == last() else torch.zeros(4, 4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    found = named(lambda: load_sharded({"f4": bad, "w": torch.zeros(3)}, folder, share="group"))
    assert list(found) == [last()] and "cannot copy tensor 'f4' of dtype F4 to torch.float32 on cpu" in found[last()], found


def survives_ctrl_c_in_any_round(folder: Path) -> None:
    """Ctrl-C in a terminal reaches all ranks, each in another round."""
    save_plain(folder, large())
    signal.signal(signal.SIGINT, signal.default_int_handler)
    run = _share_exchange.Exchange.run
    for first in range(8):
        rounds = iter(range(1000))

        def interrupted(self: Any, messages: Any, bucket: Any, at: int = first + dist.get_rank(), rounds: Any = rounds) -> None:
            if next(rounds) == at:
                os.kill(os.getpid(), signal.SIGINT)
            run(self, messages, bucket)

        _share_exchange.Exchange.run = interrupted  # type: ignore[method-assign]
        try:
            load_sharded(zeroed(large()), folder, share="group", memory_limit=4 * MIB)
            raised = None
        except (KeyboardInterrupt, RankError) as error:
            raised = error
        finally:
            _share_exchange.Exchange.run = run  # type: ignore[method-assign]
        assert (raised is None) == (dist.get_world_size() == 1), raised
        assert raised is None or dist.get_rank() > 0 or isinstance(raised, KeyboardInterrupt), raised
    load_both_ways(folder, large(), share="group")


def survives_the_death_of_a_rank(folder: Path) -> None:
    """Run it last: no collective works afterwards."""
    save_plain(folder, large())

    def progress(done: int, total: int) -> None:
        if dist.get_rank() == last() and done > 8 * MIB:
            os.kill(os.getpid(), signal.SIGKILL)

    begin = time.monotonic()
    try:
        dcp.load(zeroed(large()), storage_reader=StorageReader(folder, share="group", progress=progress, memory_limit=8 * MIB))
    except RuntimeError as error:
        assert "gloo" in str(error), error
    else:
        raise AssertionError("nothing failed")
    assert time.monotonic() - begin < 20


def must_fail_soon(call: Any) -> None:
    begin = time.monotonic()
    try:
        call()
    except (RuntimeError, RankError) as error:
        assert "gloo" in str(error) or "connection" in str(error).lower(), error
    else:
        raise AssertionError("nothing failed")
    assert time.monotonic() - begin < 20


def ends_with_a_rank_that_reads(path: Path) -> None:
    """The last rank dies while it reads what only it needs, before the first round."""
    save_plain(path, large())
    state = zeroed({n: distribute_tensor(t, meshes()[0], [Shard(0) if "1" in n else Replicate()], src_data_rank=None) for n, t in large().items()})

    def progress(done: int, total: int) -> None:
        if dist.get_rank() == last():
            os.kill(os.getpid(), signal.SIGKILL)

    must_fail_soon(lambda: load_sharded(state, path, share="group", progress=progress))


class Unfinished(Temporary):
    def finish_plan(self, central_plan: Any) -> Any:
        if dist.get_rank() == last():
            raise ValueError("no plan")
        return central_plan


def ends_with_a_rank_that_cannot_plan(path: Path) -> None:
    """torch asks the planner after the last exchange of errors: this rank does not come to the reader."""
    save_plain(path, whole())

    def load() -> None:
        dcp.load(zeroed(whole()), storage_reader=StorageReader(path, share="group"), planner=Unfinished())

    if dist.get_rank() < last():
        must_fail_soon(load)
        return
    assert {rank: repr(error) for rank, error in failures(load).items()} == {last(): "ValueError('no plan')"}
    os._exit(1)  # as a program does that does not catch the error
