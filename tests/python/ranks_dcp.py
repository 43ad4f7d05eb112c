"""What ranks do with StorageReader and torch.distributed.checkpoint, and with load_sharded where both do the same. Each function
is a case: see ranks.py."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import sharded
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import CheckpointException, DefaultLoadPlanner
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.metadata import MetadataIndex
from torch.distributed.checkpoint.planner import LoadItemType, ReadItem
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from safetensors import SafetensorError
from safetensors.distributed import StorageReader, load_sharded
from safetensors.torch import save_file


def last() -> int:
    return dist.get_world_size() - 1


def meshes() -> list[DeviceMesh]:
    """All ranks in one dimension, and with four or eight ranks also in two."""
    count = dist.get_world_size()
    found = [init_device_mesh("cpu", (count,))]
    if count >= 4:
        found.append(init_device_mesh("cpu", (2, count // 2), mesh_dim_names=("outer", "inner")))
    return found


def whole() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(5)
    return {
        "even": torch.randn(8, 12, generator=generator),
        "odd": torch.randn(7, 5, 3, generator=generator),
        "few": torch.randn(1, 6, generator=generator),  # fewer rows than ranks
        "half": torch.randn(9, 4, generator=generator).bfloat16(),
        "ids": torch.arange(33),
        "mask": torch.tensor([True, False, True, True, False]),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "empty": torch.zeros(0, 3),
    }


def save_plain(folder: Path, tensors: dict[str, Any]) -> Path:
    """Rank 0 saves one file. All ranks get the folder."""
    if dist.get_rank() == 0:
        save_file(tensors, folder / "model.safetensors", durability="none")
    dist.barrier()
    return folder


def save_shards(folder: Path, tensors: dict[str, Any]) -> Path:
    """Rank 0 saves three files and their index."""
    if dist.get_rank() == 0:
        sharded.save(folder, {name: tensor.numpy() for name, tensor in tensors.items()}, 3)
    dist.barrier()
    return folder


def cut(tensors: dict[str, Any], mesh: DeviceMesh, seed: int) -> dict[str, Any]:
    """The tensors as DTensors with random placements, without communication."""
    choose = random.Random(seed)
    return {name: distribute_tensor(t, mesh, placements_for(t, mesh, choose), src_data_rank=None) for name, t in tensors.items()}


def placements_for(tensor: Any, mesh: DeviceMesh, choose: random.Random) -> list[Any]:
    options = [Replicate(), *(Shard(dim) for dim in range(tensor.dim()))]
    return [choose.choice(options) for _ in range(mesh.ndim)]


def local(tensor: Any) -> Any:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def zeroed(state: dict[str, Any]) -> dict[str, Any]:
    """A state dict of the same form. No test uses these values."""
    made = {}
    for name, tensor in state.items():
        fresh = torch.full_like(local(tensor), 0 if local(tensor).dtype == torch.bool else 77)
        if isinstance(tensor, DTensor):
            fresh = DTensor.from_local(fresh, tensor.device_mesh, tensor.placements, run_check=False, shape=tensor.shape, stride=tensor.stride())
        made[name] = fresh
    return made


def check_equal(state: dict[str, Any], expected: dict[str, Any]) -> None:
    assert state.keys() == expected.keys()
    for name in expected:
        one, other = local(state[name]), local(expected[name])
        assert one.dtype == other.dtype and torch.equal(one, other), f"{name}: {one} is not {other}"


def by_reader(state: dict[str, Any], path: Path, **options: Any) -> None:
    dcp.load(state, storage_reader=StorageReader(path, **options))


WAYS = (by_reader, load_sharded)


def check_load(path: Path, expected: dict[str, Any], **options: Any) -> None:
    for way in WAYS:
        state = zeroed(expected)
        way(state, path, **options)
        check_equal(state, expected)


def failures(call: Any) -> dict[int, BaseException]:
    """The errors of the ranks that failed, which all ranks must know."""
    try:
        call()
    except CheckpointException as error:
        return {rank: error.failures[rank][0] for rank in error.failures}
    raise AssertionError("nothing failed")


# --- values ---


def loads_one_file(folder: Path) -> None:
    save_plain(folder, whole())
    for mesh in meshes():
        for seed in range(3):
            expected = cut(whole(), mesh, seed)
            expected["scalar"] = whole()["scalar"]  # a plain tensor beside DTensors
            check_load(folder, expected)
            check_load(folder / "model.safetensors", expected, threads=2, memory_limit="1MiB", cache="fill")
    check_load(folder, whole())  # plain tensors: each rank loads them whole


def loads_what_torchs_reader_loads(folder: Path) -> None:
    full = {name: tensor for name, tensor in whole().items() if tensor.dtype != torch.bfloat16}
    save_shards(folder, full)
    for mesh in meshes():
        for seed in range(3):
            expected = cut(full, mesh, seed)
            theirs, ours = zeroed(expected), zeroed(expected)
            dcp.load(theirs, storage_reader=HuggingFaceStorageReader(str(folder)))
            dcp.load(ours, storage_reader=StorageReader(folder))
            check_equal(ours, theirs)
            check_equal(ours, expected)


def casts_and_fills_strided_tensors(folder: Path) -> None:
    full = {"w": torch.randn(6, 8, generator=torch.Generator().manual_seed(1)), "n": torch.arange(12).reshape(3, 4)}
    save_plain(folder, full)
    state = {"w": torch.zeros(8, 6, dtype=torch.bfloat16).t(), "n": torch.zeros(3, 8, dtype=torch.int16)[:, ::2]}
    views, versions = dict(state), {name: tensor._version for name, tensor in state.items()}
    dcp.load(state, storage_reader=StorageReader(folder))
    assert state["w"] is views["w"] and torch.equal(views["w"], full["w"].bfloat16())
    assert state["n"] is views["n"] and torch.equal(views["n"], full["n"].short())
    assert all(tensor._version > versions[name] for name, tensor in views.items())  # autograd knows


def converts_within_the_memory_limit(folder: Path) -> None:
    full = {"ids": torch.arange(200_000).reshape(1000, 200)}  # the plan does not convert integers
    save_plain(folder, full)
    state = {"ids": torch.zeros(1000, 200, dtype=torch.int32)}
    dcp.load(state, storage_reader=StorageReader(folder, memory_limit=100_000))
    assert torch.equal(state["ids"], full["ids"].int())


def fills_tied_tensors_in_order(folder: Path) -> None:
    save_plain(folder, {"a": torch.ones(4, 4), "b": torch.full((4, 4), 2.0)})
    tied = torch.zeros(4, 4)
    dcp.load({"a": tied, "b": tied}, storage_reader=StorageReader(folder))
    assert torch.equal(tied, torch.full((4, 4), 2.0))


def fsdp(mesh: DeviceMesh, device: str = "cpu") -> tuple[Any, dict[str, Any]]:
    """A model with shards of its parameters on each rank, and its whole values."""
    from torch.distributed.fsdp import fully_shard

    def make() -> Any:
        torch.manual_seed(3)
        return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 3))

    full = {name: tensor.detach().clone() for name, tensor in make().state_dict().items()}
    with torch.device(device):
        model = make()
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    return model, full


def cleared(model: Any) -> Any:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    return model


def check_model(model: Any, full: dict[str, Any]) -> None:
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor.full_tensor() if isinstance(tensor, DTensor) else tensor, full[name]), name


def loads_a_model_of_fsdp(folder: Path) -> None:
    model, full = fsdp(meshes()[0])
    save_plain(folder, full)
    for way in WAYS:
        way(cleared(model).state_dict(), folder)
        check_model(model, full)


# --- bytes ---


def counted(field: str, file: str = "io") -> int:
    """A number that the system tells of this process."""
    return next(int(line.split()[1]) for line in Path(f"/proc/self/{file}").read_text().splitlines() if line.startswith(field + ":"))


def reads_only_its_own_bytes(folder: Path) -> None:
    rows = 4096
    full = {"w": torch.arange(rows * 2048, dtype=torch.float32).reshape(rows, 2048)}  # 32 MiB
    save_plain(folder, full)
    expected = {"w": distribute_tensor(full["w"], meshes()[0], [Shard(0)], src_data_rank=None)}
    needed = local(expected["w"]).nbytes
    for way in WAYS:
        check_load(folder, expected)  # the first load imports modules
        state = zeroed(expected)
        before = counted("rchar")
        way(state, folder, cache="fill")
        read = counted("rchar") - before
        assert needed <= read <= 1.05 * needed + 65536, f"{read} bytes were read, {needed} are needed"
        check_equal(state, expected)


# --- the planner ---


class Temporary(DefaultLoadPlanner):  # type: ignore[misc]
    """Loads into tensors of its own, and copies each to the state dict when it is told that it is loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.committed: list[ReadItem] = []

    def resolve_tensor(self, read_item: ReadItem) -> Any:
        return torch.full_like(super().resolve_tensor(read_item), 55)

    def commit_tensor(self, read_item: ReadItem, tensor: Any) -> None:
        self.committed.append(read_item)
        super().resolve_tensor(read_item).copy_(tensor)


def commits_each_item_once(folder: Path) -> None:
    full = {name: t for name, t in whole().items() if t.dtype != torch.bool}
    save_plain(folder, full)
    expected = cut(full, meshes()[0], 1)
    state, planner = zeroed(expected), Temporary()
    dcp.load(state, storage_reader=StorageReader(folder), planner=planner)
    check_equal(state, expected)
    fqns = [item.dest_index.fqn for item in planner.committed]
    assert len(set(fqns)) == len(fqns) and set(fqns) == {n for n, t in expected.items() if local(t).numel()}


class WithBytes(DefaultLoadPlanner):  # type: ignore[misc]
    def create_local_plan(self) -> Any:
        plan = super().create_local_plan()
        index = MetadataIndex("optimizer.step")
        none = torch.Size([0])
        plan.items.append(ReadItem(LoadItemType.BYTE_IO, index, none, index, none, none))
        return plan


def refuses_items_that_are_no_tensors(folder: Path) -> None:
    save_plain(folder, {"w": torch.zeros(2)})
    found = failures(lambda: dcp.load({"w": torch.zeros(2)}, storage_reader=StorageReader(folder), planner=WithBytes()))
    assert list(found) == list(range(dist.get_world_size()))
    assert str(found[0]) == "cannot load 'optimizer.step': it is not a tensor, and a safetensors file holds tensors only"


# --- failures ---


def names_the_rank_without_the_file(folder: Path) -> None:
    save_plain(folder, whole())
    for rank in {0, last()}:
        mine = folder / "nowhere" if dist.get_rank() == rank else folder
        found = failures(lambda mine=mine: dcp.load(zeroed(whole()), storage_reader=StorageReader(mine)))
        assert list(found) == [rank] and "No such file" in str(found[rank]) and str(folder / "nowhere") in str(found[rank])


class Truncating(DefaultLoadPlanner):  # type: ignore[misc]
    """Cuts the file after all ranks have opened it, and before they read."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def finish_plan(self, central_plan: Any) -> Any:
        if dist.get_rank() == 0:
            os.truncate(self._path, self._path.stat().st_size - 16)
        dist.barrier()
        return central_plan


def names_the_rank_with_a_truncated_file(folder: Path) -> None:
    full = {"w": torch.arange(64.0).reshape(16, 4)}
    save_plain(folder, full)
    state = zeroed({"w": distribute_tensor(full["w"], meshes()[0], [Shard(0)], src_data_rank=None)})
    path = folder / "model.safetensors"
    found = failures(lambda: dcp.load(state, storage_reader=StorageReader(path), planner=Truncating(path)))
    assert list(found) == [last()], found  # the others read their rows
    assert isinstance(found[last()], SafetensorError) and "w" in str(found[last()]), repr(found[last()])


class Local(Exception):
    """pickle cannot make it again."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def names_the_rank_that_was_cancelled(folder: Path) -> None:
    save_plain(folder, whole())
    for raised, expected in ((KeyboardInterrupt(), "KeyboardInterrupt()"), (Local(1, 2), "SafetensorError('Local: 1 and 2')")):

        def progress(done: int, total: int, raised: BaseException = raised) -> None:
            if dist.get_rank() == last():
                raise raised

        found = failures(lambda: dcp.load(zeroed(whole()), storage_reader=StorageReader(folder, progress=progress)))
        assert {rank: repr(error) for rank, error in found.items()} == {last(): expected}
    check_load(folder, whole())  # the group is as good as before


def survives_the_death_of_a_rank(folder: Path) -> None:
    """Run it last: no collective works afterwards."""
    save_plain(folder, whole())

    def progress(done: int, total: int) -> None:
        if dist.get_rank() == last():
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        dcp.load(zeroed(whole()), storage_reader=StorageReader(folder, progress=progress))
    except RuntimeError as error:
        assert "gloo" in str(error), error
    else:
        raise AssertionError("nothing failed")
