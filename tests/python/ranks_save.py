"""What ranks do with StorageWriter and torch.distributed.checkpoint. Each function is a case: see ranks.py."""

from __future__ import annotations

import gc
import itertools
import shutil
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ranks_dcp import Local, check_equal, counted, cut, failures, fsdp, last, local, meshes, whole, zeroed
from torch.distributed.checkpoint import DefaultSavePlanner
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard

import safetensors
import safetensors.numpy
import safetensors.torch
from safetensors import SafetensorError
from safetensors.distributed import RankError, StorageReader, StorageWriter, save_sharded


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def on_rank_0(check: Any) -> None:
    """All ranks fail if the check of rank 0 fails. Otherwise the others would wait for it."""
    fault: list[str | None] = [None]
    dist.barrier()
    try:
        if dist.get_rank() == 0:
            check()
    except Exception:
        fault = [traceback.format_exc()]
    dist.broadcast_object_list(fault)
    assert fault[0] is None, fault[0]


def check_files(folder: Path, full: dict[str, Any], **options: Any) -> None:
    """All ranks: the files are those that save writes. Nothing else is there."""

    def check() -> None:
        expected = folder.with_name(folder.name + "-expected")
        safetensors.save(full, expected, durability="none", **options)
        one, other = contents(folder), contents(expected)
        assert one.keys() == other.keys(), (one.keys(), other.keys())
        assert one == other, {name: (one[name][:300], other[name][:300]) for name in one if one[name] != other[name]}
        assert not [path for path in folder.parent.iterdir() if path.name.startswith(".")]

    on_rank_0(check)


def save(state: dict[str, Any], folder: Path, planner: Any = None, **options: Any) -> None:
    dcp.save(state, storage_writer=StorageWriter(folder, **{"durability": "none", **options}), planner=planner)


def by_save_sharded(target: Any, folder: Path, **options: Any) -> None:
    save_sharded(target, folder, **{"durability": "none", **options})


WAYS = (save, by_save_sharded)


# --- values ---


def writes_what_save_writes(folder: Path) -> None:
    options = {"metadata": {"format": "pt"}, "index_metadata": {"step": 3}}
    for number, (way, mesh, size) in enumerate(itertools.product(WAYS, meshes(), ("5GB", "0.4KB"))):
        state = cut(whole(), mesh, number)
        state["ids"], state["half"] = whole()["ids"], whole()["half"]  # plain tensors beside DTensors
        way(state, folder / str(number), max_shard_size=size, **options)
        check_files(folder / str(number), whole(), max_shard_size=size, **options)
    for way in WAYS:
        way(whole(), folder / way.__name__)
        check_files(folder / way.__name__, whole())


def saves_and_loads_in_a_part_of_the_ranks(folder: Path) -> None:
    count = dist.get_world_size() // 2 + 1
    group, mesh = dist.new_group(list(range(count))), DeviceMesh("cpu", list(range(count)))
    if dist.get_rank() < count:
        state = cut(whole(), mesh, count)
        dcp.save(state, storage_writer=StorageWriter(folder / "made", durability="file"), process_group=group)
        made = zeroed(state)
        dcp.load(made, storage_reader=StorageReader(folder / "made"), process_group=group)
        check_equal(made, state)
    check_files(folder / "made", whole())


def keeps_the_order_of_the_state_dict(folder: Path) -> None:
    """torch gives each rank some of the replicated tensors. The order is that of the state dict all the same."""
    full = {f"{'zyxabc'[i % 6]}{i}": torch.full((4, 4), float(i)) for i in range(24)}
    for number, lowest in enumerate((False, True)):
        planner = DefaultSavePlanner(dedup_save_to_lowest_rank=lowest)
        save(cut(full, meshes()[-1], number), folder / str(number), planner, max_shard_size=200)
        check_files(folder / str(number), full, max_shard_size=200)
        save(full, folder / f"plain{number}", planner, max_shard_size=200)
        check_files(folder / f"plain{number}", full, max_shard_size=200)


def saves_a_model_of_fsdp(folder: Path) -> None:
    from torch.distributed.checkpoint.state_dict import get_model_state_dict

    model, full = fsdp(meshes()[0])
    save({"model": get_model_state_dict(model)}, folder / "nested", max_shard_size=100)
    check_files(folder / "nested", {f"model.{name}": t for name, t in full.items()}, max_shard_size=100)


def saves_a_model_of_fsdp_and_tensor_parallelism(folder: Path) -> None:
    """The rows of a column-parallel weight have a _StridedShard. Each rank has adjacent rows all the same."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    if dist.get_world_size() < 4:
        return
    mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("data", "tensor"))
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Linear(16, 8))
    full = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
    fully_shard(model, mesh=mesh["data"])
    assert any(isinstance(p, _StridedShard) for t in model.state_dict().values() for p in t.placements)
    save(model.state_dict(), folder / "made")
    check_files(folder / "made", full)


def saves_packed_and_conjugated_tensors(folder: Path) -> None:
    packed = torch.arange(48, dtype=torch.uint8).reshape(8, 6).view(torch.float4_e2m1fn_x2)
    number = torch.tensor([[1 + 2j, 3 - 4j], [5j, 6]], dtype=torch.complex64)
    full = {"f4": packed, "f8": torch.arange(8.0).to(torch.float8_e5m2), "c": number.conj().resolve_conj()}
    mesh = meshes()[0]
    rows = 8 // dist.get_world_size()
    begin = rows * dist.get_rank()
    part = DTensor.from_local(packed[begin : begin + rows], mesh, [Shard(0)], run_check=False, shape=packed.shape, stride=packed.stride())
    save({"f4": part, "f8": full["f8"], "c": number.conj()}, folder / "made")
    check_files(folder / "made", full)


def saves_while_the_program_goes_on(folder: Path) -> None:
    for number, mesh in enumerate(meshes()):
        state = cut(whole(), mesh, number)
        future = dcp.async_save(state, storage_writer=StorageWriter(folder / str(number), max_shard_size=300))
        for tensor in state.values():
            local(tensor).zero_()  # the values are those of the call
        future.result()
        check_files(folder / str(number), whole(), max_shard_size=300)
    future = dcp.async_save(whole(), storage_writer=StorageWriter(folder / "nowhere" / "made"))
    assert "no such file" in str(failures(future.result)[0])


# --- bytes ---


def writes_only_its_own_bytes(folder: Path) -> None:
    count = dist.get_world_size()
    part = torch.arange(4096 * 2048 // count, dtype=torch.float32).reshape(-1, 2048) + dist.get_rank() * (4096 * 2048 // count)
    mesh = meshes()[0]
    rows = DTensor.from_local(part, mesh, [Shard(0)], run_check=False)  # 32 MiB in all
    both = torch.stack([part, part], dim=-1)[..., 0]
    columns = DTensor.from_local(both, mesh, [Shard(0)], run_check=False)
    save({"rows": rows[:8]}, folder / "first")  # the first save imports modules
    for name, tensor in (("rows", rows), ("columns", columns)):
        Path("/proc/self/clear_refs").write_text("5")
        before, held = counted("wchar"), 1024 * counted("VmRSS", "status")
        save({"w": tensor}, folder / name, memory_limit="1MiB")
        written, peak = counted("wchar") - before, 1024 * counted("VmHWM", "status") - held
        assert part.nbytes <= written <= 1.01 * part.nbytes + 65536, f"{written} bytes were written, {part.nbytes} are its own"
        assert count > 2 or peak <= 8 << 20, f"{peak} bytes of memory were used, its own part is {part.nbytes}"
        assert torch.equal(safetensors.load(folder / name, framework="pt")["w"].flatten(), torch.arange(4096.0 * 2048))
        dist.barrier()


def memory_does_not_depend_on_the_number_of_files(folder: Path) -> None:
    """Durable writes from memory that is not aligned go through buffers, which all files share."""
    count = dist.get_world_size()
    if count > 2:
        return
    mesh = meshes()[0]
    parts = {f"w{i}": torch.full(((5 << 18) + 3,), i, dtype=torch.float32)[3:] for i in range(24)}  # 5 MiB each
    state = {name: DTensor.from_local(part, mesh, [Shard(0)], run_check=False) for name, part in parts.items()}
    save({"w": state["w0"]}, folder / "first", durability="file")
    Path("/proc/self/clear_refs").write_text("5")
    held = 1024 * counted("VmRSS", "status")
    save(state, folder / "made", durability="file", max_shard_size=1)
    peak = 1024 * counted("VmHWM", "status") - held
    assert peak <= 48 << 20, f"{peak} bytes of memory for 24 files"
    assert safetensors.load(folder / "made", framework="pt")["w23"].unique().tolist() == [23]


def reports_progress(folder: Path) -> None:
    calls: list[tuple[int, int]] = []
    state = cut({"w": torch.zeros(64, 8)}, meshes()[0], 0)
    save(state, folder / "made", progress=lambda done, total: calls.append((done, total)))
    own = sum(local(t).nbytes for t in state.values())
    replicated = isinstance(state["w"].placements[0], Replicate)
    if dist.get_rank() == 0:
        assert calls[-1][0] == calls[-1][1] == (folder / "made" / "model.safetensors").stat().st_size, calls
    elif not replicated:
        assert calls[-1] == (own, own), calls


# --- failures ---


@contextmanager
def untouched(parent: Path) -> Any:
    """An old checkpoint, which is still there at the end, and nothing else."""
    old = {"old": torch.arange(5.0)}
    on_rank_0(lambda: safetensors.save(old, parent / "made", durability="none"))
    yield parent / "made"

    def check() -> None:
        assert contents(parent / "made") == {"model.safetensors": safetensors.torch.save(old)}
        assert [path.name for path in parent.iterdir()] == ["made"], list(parent.iterdir())

    on_rank_0(check)


def refuses_what_no_file_holds(folder: Path) -> None:
    for state, text in (
        ({"w": torch.zeros(2), "step": 5}, "cannot save 'step': it is not a tensor, and a safetensors file holds tensors only"),
        ({"optimizer": {"lr": [0.1]}}, "cannot save 'optimizer.lr': it is not a tensor"),
        ({"w": torch.eye(3).to_sparse()}, "cannot save 'w': it is sparse (make it dense with `.to_dense()`)"),
    ):
        with untouched(folder) as made:
            found = failures(lambda state=state, made=made: save(state, made))
            assert list(found) == list(range(dist.get_world_size()))
            assert all(str(error).startswith(text) for error in found.values()), found
    with untouched(folder) as made:
        state = {"w": torch.zeros(4, dtype=torch.float32 if dist.get_rank() else torch.float16), "v": torch.zeros(4, device="meta")}
        found = failures(lambda: save(state, made))
        assert "'v': it is on the meta device, without values" in str(found[0]), found


def refuses_ranks_that_differ(folder: Path) -> None:
    if not last():
        return
    shape = [8, 8 + dist.get_rank()]
    for state in ({"w": distribute_tensor(torch.zeros(shape), meshes()[0], [Shard(0)], src_data_rank=None)}, {"w": distribute_tensor(torch.zeros(8, 8, dtype=[torch.float32, torch.float64][dist.get_rank() % 2]), meshes()[0], [Shard(0)], src_data_rank=None)}):
        with untouched(folder) as made:
            found = failures(lambda state=state, made=made: save(state, made))
            assert list(found) == [0], found


class Failing(DefaultSavePlanner):  # type: ignore[misc]
    """Fails on one rank, at a step."""

    def __init__(self, step: str, rank: int, error: BaseException | None = None) -> None:
        super().__init__()
        self._step, self._rank, self._error = step, rank, error or OSError(5, "gone")

    def _fail(self, step: str) -> None:
        if step == self._step and dist.get_rank() == self._rank:
            raise self._error

    def create_local_plan(self) -> Any:
        self._fail("local")
        return super().create_local_plan()

    def create_global_plan(self, all_plans: Any) -> Any:
        self._fail("global")
        return super().create_global_plan(all_plans)

    def finish_plan(self, new_plan: Any) -> Any:
        self._fail("finish")
        return super().finish_plan(new_plan)

    def resolve_data(self, write_item: Any) -> Any:
        self._fail("resolve")
        return super().resolve_data(write_item)


def names_the_rank_that_fails(folder: Path) -> None:
    state = {"w": distribute_tensor(torch.zeros(16, 4), meshes()[0], [Shard(0)], src_data_rank=None)}
    for step, rank in itertools.product(("local", "global", "finish", "resolve"), {0, last()}):
        if step == "global" and rank:
            continue
        with untouched(folder) as made:
            found = failures(lambda step=step, rank=rank, made=made: save(state, made, Failing(step, rank)))
            gc.collect()  # torch tells no writer that a planner has failed on another rank
            if step == "resolve" and last():
                assert list(found) == [0] and isinstance(found[0], RankError) and found[0].failures == {rank: "OSError: [Errno 5] gone"}, found
            else:
                assert {rank: repr(error) for rank, error in found.items()} == {rank: "OSError(5, 'gone')"}, found
    for error, text in ((KeyboardInterrupt(), "KeyboardInterrupt: "), (Local(1, 2), "Local: 1 and 2")):
        with untouched(folder) as made:
            found = failures(lambda error=error, made=made: save(state, made, Failing("resolve", last(), error)))
            assert text.removesuffix(": ") in repr(found[0]), found
    save(state, folder / "after")  # the group is as good as before
    check_files(folder / "after", {"w": torch.zeros(16, 4)})


def refuses_plans_of_an_earlier_save(folder: Path) -> None:
    class Caching(DefaultSavePlanner):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(enable_plan_caching=True)

    save(whole(), folder / "one", Caching())
    found = failures(lambda: save(whole(), folder / "two", Caching()))
    assert "(give a planner with enable_plan_caching=False)" in str(found[0]), found
    assert not (folder / "two").exists()


def refuses_to_save_without_collectives(folder: Path) -> None:
    if not last():
        return
    try:
        dcp.save(whole(), storage_writer=StorageWriter(folder / "made"), use_collectives=False)
    except SafetensorError as error:
        assert str(error).startswith("use_collectives=False is not supported: ")
    else:
        raise AssertionError("nothing failed")
    assert list(folder.iterdir()) == []


def removes_what_a_failed_save_left(folder: Path) -> None:
    if not last():
        return
    with untouched(folder) as made:
        writer = StorageWriter(made)
        for end in (writer.close, writer.reset):
            failures(lambda: dcp.save(whole(), storage_writer=writer, planner=Failing("finish", last())))
            on_rank_0(lambda: check_temporary(made))
            end()
            on_rank_0(lambda: check_one_name(made))
        failures(lambda: dcp.save(whole(), storage_writer=writer, planner=Failing("finish", last())))
        dcp.save(whole(), storage_writer=writer, checkpoint_id=folder / "other")
        on_rank_0(lambda: shutil.rmtree(folder / "other"))


def check_temporary(path: Path) -> None:
    assert any(name.startswith(".safetensors-") for name in contents(path)), list(contents(path))


def check_one_name(path: Path) -> None:
    assert list(contents(path)) == ["model.safetensors"]
