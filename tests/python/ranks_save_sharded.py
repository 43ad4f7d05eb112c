"""What ranks do with save_sharded. Each function is a case: see ranks.py."""

from __future__ import annotations

import random
import resource
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from ranks_dcp import check_model, cleared, cut, fsdp, last, local, meshes, whole
from ranks_save import WAYS, by_save_sharded as save, check_files, untouched
from ranks_sharded import as_torch_cuts, raised
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard

import safetensors
import safetensors.numpy
import safetensors.torch
from safetensors import SafetensorError
from safetensors.distributed import RankError, load_sharded


# --- values ---


def saves_random_placements(folder: Path) -> None:
    """Save on N ranks, read by NumPy, and load on all ranks with other placements."""
    dtypes = [torch.float32, torch.float16, torch.int16, torch.uint8, torch.float64, torch.bool]
    for seed in range(12 if dist.get_world_size() < 8 else 6):
        choose = random.Random(seed)
        shapes = {f"t{i}": [choose.randint(0, 11) for _ in range(choose.randint(0, 3))] for i in range(6)}
        full = {n: torch.arange(int(np.prod(s)), dtype=torch.float64).reshape(s).to(choose.choice(dtypes)) for n, s in shapes.items()}
        options = {"max_shard_size": choose.choice([50, 300, 1000, "5GB"]), "memory_limit": choose.choice([0, 1, 100])}
        for number, mesh in enumerate(meshes()):
            made = folder / f"{seed}-{number}"
            state = {name: strided(placed(t, mesh, choose), choose) for name, t in full.items()}
            save(state, made, **options)
            found: dict[str, Any] = {}
            for file in made.glob("*.safetensors"):
                found |= safetensors.numpy.load_file(file)
            assert found.keys() == full.keys()
            for name, tensor in full.items():
                assert found[name].dtype == tensor.numpy().dtype and np.array_equal(found[name], tensor.numpy()), name
            given = {name: placements(t, mesh, choose) for name, t in full.items()}
            again = load_sharded(None, made, mesh=mesh, placements=given)
            for name, tensor in full.items():
                assert torch.equal(again[name].to_local(), as_torch_cuts(tensor, mesh, given[name])), (name, given[name])


def strided(tensor: Any, choose: random.Random) -> Any:
    """A tensor of the same values. Now and then its elements are not adjacent in memory."""
    held = local(tensor)
    if not held.dim() or choose.random() < 0.5:
        return tensor
    spread = torch.stack([held, held], dim=-1)[..., 0]
    if not isinstance(tensor, DTensor):
        return spread
    return DTensor.from_local(spread, tensor.device_mesh, tensor.placements, run_check=False, shape=tensor.shape, stride=tensor.stride())


def placements(tensor: Any, mesh: DeviceMesh, choose: random.Random) -> list[Any]:
    given: list[Any] = []
    for _ in range(mesh.ndim):
        dim = choose.randrange(tensor.dim()) if tensor.dim() else 0
        cuts = [Shard(dim), _StridedShard(dim, split_factor=choose.randint(1, 3))] if tensor.dim() else []
        given.append(choose.choice([Replicate(), *cuts]))
    return given


def placed(tensor: Any, mesh: DeviceMesh, choose: random.Random) -> Any:
    """A DTensor with random placements, or now and then the plain tensor."""
    given = placements(tensor, mesh, choose)
    if choose.random() < 0.2:
        return tensor
    return DTensor.from_local(as_torch_cuts(tensor, mesh, given), mesh, given, run_check=False, shape=tensor.shape, stride=tensor.stride())


def saves_a_model_of_fsdp(folder: Path) -> None:
    for number, mesh in enumerate(meshes()):  # two dimensions: replicas of shards
        model, full = fsdp(mesh)
        save(model, folder / str(number), max_shard_size=100)
        check_files(folder / str(number), full, max_shard_size=100)
        load_sharded(cleared(model), folder / str(number))
        check_model(model, full)


def casts_while_it_saves(folder: Path) -> None:
    full = {"w": torch.randn(9, 4, generator=torch.Generator().manual_seed(2)), "ids": torch.arange(5), "d": torch.ones(3, dtype=torch.float64)}
    for number, mesh in enumerate(meshes()):
        save(cut(full, mesh, number), folder / str(number), dtype="bf16", memory_limit=20)
        check_files(folder / str(number), {"w": full["w"].bfloat16(), "ids": full["ids"], "d": full["d"].bfloat16()})


def saves_tensors_that_only_some_ranks_have(folder: Path) -> None:
    """Stages of a pipeline: other names on each rank, and one name that all have but the first."""
    own = {f"rank{rank}.w": torch.full((3,), float(rank)) for rank in range(dist.get_world_size())}
    mine = {name: t for name, t in own.items() if name == f"rank{dist.get_rank()}.w"}
    late = {"late": torch.arange(4.0)} if last() else {}
    if dist.get_rank():
        mine |= late
    stage = DeviceMesh("cpu", [last()])
    if dist.get_rank() == last():
        mine["stage"] = DTensor.from_local(torch.ones(2), stage, [Shard(0)], run_check=False)
    full = {name: t for rank, (name, t) in enumerate(own.items()) if rank < 2} | late | {name: t for rank, (name, t) in enumerate(own.items()) if rank >= 2}
    for way in WAYS:
        way(mine, folder / way.__name__, max_shard_size=12)
        check_files(folder / way.__name__, {**full, "stage": torch.ones(2)}, max_shard_size=12)


def saves_replicas_of_separate_meshes_once(folder: Path) -> None:
    """Each half of the ranks has a mesh of its own, and the whole tensor."""
    count = dist.get_world_size()
    if count < 2:
        return
    halves = [DeviceMesh("cpu", list(range(count // 2))), DeviceMesh("cpu", list(range(count // 2, count)))]
    mesh = halves[dist.get_rank() // (count // 2)]
    state = cut(whole(), mesh, 3)
    save(state, folder / "made")
    check_files(folder / "made", whole())


def saves_in_a_part_of_the_ranks(folder: Path) -> None:
    group = dist.new_group([last()])
    if dist.get_rank() == last():
        save(whole(), folder / "made", process_group=group)
    elif last():
        assert str(raised(lambda: save(whole(), folder / "made", process_group=group))) == "this rank is not in the process group"
    check_files(folder / "made", whole())
    if last():
        tensor = distribute_tensor(torch.zeros(16), meshes()[0], [Shard(0)], src_data_rank=None)
        if dist.get_rank() == last():
            error = raised(lambda: save({"w": tensor}, folder / "other", process_group=group))
            assert "the ranks do not hold 'w' once: its chunks hold" in str(error) and "(are all ranks of its mesh in the process group?)" in str(error)
            assert not (folder / "other").exists()
    dist.barrier()


# --- failures ---


@contextmanager
def full_disk(rank: int) -> Any:
    """On this rank, no file can become larger than 128 KiB."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if dist.get_rank() == rank:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def refuses_what_cannot_be_saved(folder: Path) -> None:
    mesh = meshes()[0]
    partial = DTensor.from_local(torch.zeros(4, 3), mesh, [Partial()], run_check=False)
    false = DTensor.from_local(torch.zeros(1, 3), mesh, [Replicate()], run_check=False, shape=torch.Size([4, 3]), stride=(3, 1))
    for target, options, text in (
        ({"w": partial}, {}, "'w' has the placement Partial(sum), which no checkpoint holds: expected Shard or Replicate"),
        ({"w": false}, {}, "the local part of 'w' has shape [1, 3], and its placements give [4, 3]"),
        ({"step": 5}, {}, "cannot save 'step': it is int, and a safetensors file holds tensors only"),
        ({"a": {"b": torch.zeros(2)}}, {}, "cannot save 'a': it is dict, and"),
        ({"w": torch.zeros(2, device="meta")}, {}, "cannot save 'w': it is on the meta device, without values"),
        ({"w": torch.zeros(2, dtype=torch.complex128)}, {}, "cannot save 'w': it has dtype torch.complex128, which the format cannot hold"),
        ({"w": torch.eye(3).to_sparse()}, {}, "cannot save 'w': it is sparse"),
        ([torch.zeros(2)], {}, "target is list: give a module or a dict"),
        ({}, {"dtype": "int8"}, "cannot cast to I8: expected one of float8_e5m2, "),
        ({}, {"memory_limit": "much"}, "memory_limit 'much' is invalid"),
        ({}, {"max_shard_size": "much"}, "max_shard_size 'much' is invalid"),
        ({}, {"new_folder": True}, "exists"),
        ({}, {"durability": "some"}, "durability"),
        ({}, {"metadata": {"step": 5}}, ""),
    ):
        with untouched(folder) as made:
            error = raised(lambda target=target, made=made, options=options: save(target, made, **options))
            assert text in str(error), error
            assert isinstance(error, RankError) == (last() > 0)
    error = raised(lambda: save({}, folder / "model.safetensors"))
    assert "would be a folder: give the path of a folder" in str(error)


def refuses_ranks_that_differ(folder: Path) -> None:
    if not last():
        return
    rank = dist.get_rank()
    first = torch.zeros(4)
    for other, text in (
        (torch.zeros(5), f"'w' has dtype torch.float32 and shape [4] on rank 0, and torch.float32 and [5] on rank {last()}"),
        (torch.zeros(4).half(), f"'w' has dtype torch.float32 and shape [4] on rank 0, and torch.float16 and [4] on rank {last()}"),
        (distribute_tensor(first, meshes()[0], [Replicate()], src_data_rank=None), f"'w' is a plain tensor on rank 0, and a DTensor on rank {last()}"),
    ):
        with untouched(folder) as made:
            error = raised(lambda other=other, made=made: save({"w": other if rank == last() else first}, made))
            assert isinstance(error, RankError) and list(error.failures) == [0] and text in str(error), error


def names_the_rank_that_fails(folder: Path) -> None:
    state = {"w": distribute_tensor(torch.zeros(1 << 16, 4), meshes()[0], [Shard(0)], src_data_rank=None)}

    def progress(done: int, total: int) -> None:
        if dist.get_rank() == last():
            raise ValueError("enough")

    def check(error: BaseException, rank: int, text: str) -> None:
        if last():
            assert isinstance(error, RankError) and list(error.failures) == [rank] and text in error.failures[rank], error
            assert (error.__cause__ is not None) == (dist.get_rank() == rank)
        else:
            assert text.split(": ")[-1] in str(error)

    with untouched(folder) as made:
        check(raised(lambda: save(state, made, progress=progress)), last(), "ValueError: enough")
    with untouched(folder) as made:
        check(raised(lambda: save(state, folder / "nowhere" / "made")), 0, "no such file or directory")
    for rank in {0, last()}:
        with untouched(folder) as made, full_disk(rank):
            error = raised(lambda made=made: save(state, made))
            check(error, rank, "file too large")
    with untouched(folder) as made:
        error = raised(lambda: save({"w": 5 if dist.get_rank() == last() else torch.zeros(2)}, made))
        check(error, last(), "cannot save 'w'")
        assert isinstance(error, SafetensorError)
    save(state, folder / "after")  # the group is as good as before
    check_files(folder / "after", {"w": torch.zeros(1 << 16, 4)})
