"""What ranks do with load_sharded. Each function is a case: see ranks.py."""

from __future__ import annotations

import random
import sys
import types
import unittest.mock
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from ranks_dcp import check_equal, check_model, cut, fsdp, last, meshes, save_plain, save_shards, whole, zeroed
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard

from safetensors import MissingTensorError, SafetensorError
from safetensors.distributed import RankError, load_sharded


def raised(call: Any) -> BaseException:
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("nothing failed")


def fills_a_model_of_fsdp(folder: Path) -> None:
    model, full = fsdp(meshes()[0], "meta")
    save_plain(folder, full)
    error = raised(lambda: load_sharded(model, folder))
    assert "'0.weight' is on the meta device: give it memory first" in str(error), error
    model.to_empty(device="cpu")
    assert str(load_sharded(model, folder)) == "<All keys matched successfully>"
    check_model(model, full)


def casts_while_it_fills(folder: Path) -> None:
    full = {"w": torch.randn(9, 4, generator=torch.Generator().manual_seed(2))}
    save_plain(folder, full)
    expected = cut({"w": full["w"].bfloat16()}, meshes()[-1], 4)
    state = zeroed(expected)
    load_sharded(state, folder)
    check_equal(state, expected)


def makes_dtensors(folder: Path) -> None:
    torch.manual_seed(1)  # the same values on all ranks
    full = {f"layer.{i}.{name}.weight": torch.randn(6, 5) for i in range(2) for name in ("q_proj", "o_proj", "norm")}
    save_shards(folder, full)
    mesh = meshes()[0]
    placements = {"*.q_proj.weight": Shard(0), "*.o_proj.*": [Shard(1)], "layer.1.q_proj.weight": Replicate(), "*.q_*": Shard(1)}
    made = load_sharded(None, folder, mesh=mesh, placements=placements)
    assert set(made) == set(full)
    expected = {"layer.0.q_proj.weight": Shard(0), "layer.1.q_proj.weight": Replicate(), "layer.0.o_proj.weight": Shard(-1), "layer.1.norm.weight": Replicate()}
    for name, placement in expected.items():
        other = distribute_tensor(full[name], mesh, [placement], src_data_rank=None)
        assert made[name].placements == other.placements and made[name].shape == other.shape
        assert torch.equal(made[name].to_local(), other.to_local()) and made[name].stride() == other.stride()
        assert torch.equal(made[name].full_tensor(), full[name])
    half = load_sharded(None, folder, mesh=mesh, placements={"*": Shard(0)}, dtype="bf16")
    for name, tensor in half.items():
        assert torch.equal(tensor.full_tensor(), full[name].bfloat16())


def loads_random_placements(folder: Path) -> None:
    """Placements of all kinds against the local tensors that torch makes."""
    for seed in range(40):
        choose = random.Random(seed)
        shape = [choose.randint(0, 11) for _ in range(choose.randint(1, 3))]
        full = {"w": torch.arange(torch.Size(shape).numel(), dtype=torch.int32).reshape(shape)}
        own = folder / str(seed)
        own.mkdir(exist_ok=True)
        save_plain(own, full)
        for mesh in meshes():
            given: list[Any] = []
            for _ in range(mesh.ndim):
                dim = choose.randrange(len(shape))
                given.append(choose.choice([Replicate(), Shard(dim), _StridedShard(dim, split_factor=choose.randint(1, 3))]))
            made = load_sharded(None, own, mesh=mesh, placements={"w": given})["w"].to_local()
            expected = as_torch_cuts(full["w"], mesh, given)
            assert torch.equal(made, expected), (shape, given, made, expected)


def as_torch_cuts(tensor: Any, mesh: DeviceMesh, placements: list[Any]) -> Any:
    coordinate = mesh.get_coordinate()
    assert coordinate is not None
    for dim, placement in enumerate(placements):
        if not isinstance(placement, Replicate):
            parts, _ = placement._split_tensor(tensor, mesh.size(dim), with_padding=False, contiguous=True)
            tensor = parts[coordinate[dim]]
    return tensor


def loads_what_other_ranks_saved(folder: Path) -> None:
    import torch.distributed.checkpoint as dcp

    full = {name: t for name, t in whole().items() if t.dim() and t.numel()}
    for seed, saving in enumerate(meshes()):
        own = folder / str(seed)
        dcp.save(cut(full, saving, seed), storage_writer=HuggingFaceStorageWriter(str(own), save_distributed=True))
        for mesh in meshes():
            expected = cut(full, mesh, 50 + seed)
            state = zeroed(expected)
            load_sharded(state, own)
            check_equal(state, expected)


def loads_in_a_part_of_the_ranks(folder: Path) -> None:
    save_plain(folder, whole())
    mesh = DeviceMesh("cpu", [0])
    group = dist.new_group([last()])
    expected = cut(whole(), meshes()[0], 9)
    state = zeroed(expected)
    if dist.get_rank() == last():
        load_sharded(state, folder, process_group=group)
        check_equal(state, expected)
    made = load_sharded(None, folder, mesh=mesh, placements={"even": Shard(0)})
    assert made["even"].to_local().numel() == (96 if dist.get_rank() == 0 else 0)
    if dist.get_world_size() > 1 and dist.get_rank() != last():
        error = raised(lambda: load_sharded(state, folder, process_group=group))
        assert str(error) == "this rank is not in the process group"


# --- failures ---


def compares_names(folder: Path) -> None:
    save_plain(folder, {"a": torch.zeros(2), "b": torch.ones(2)})
    state = {"b": torch.zeros(2), "c": torch.zeros(2), "n": 5}
    error = raised(lambda: load_sharded(state, folder))
    text = "the names differ: the checkpoint lacks ['c', 'n'], the target lacks ['a'] (strict=False accepts this)"
    assert isinstance(error, SafetensorError) and text in str(error) and state["b"].tolist() == [0, 0]
    result = load_sharded(state, folder, strict=False)
    assert (result.missing_keys, result.unexpected_keys) == (["c", "n"], ["a"]) and state["b"].tolist() == [1, 1]


def refuses_what_cannot_be_loaded(folder: Path) -> None:
    save_plain(folder, {"w": torch.zeros(4, 3)})
    mesh = meshes()[0]
    partial = DTensor.from_local(torch.zeros(4, 3), mesh, [Partial()], run_check=False)
    false = DTensor.from_local(torch.zeros(1, 3), mesh, [Replicate()], run_check=False, shape=torch.Size([4, 3]), stride=(3, 1))
    for call, text in (
        (lambda: load_sharded({"w": partial}, folder), "'w' has the placement Partial(sum), which no checkpoint holds: expected Shard or Replicate"),
        (lambda: load_sharded({"w": false}, folder), "the local part of 'w' has shape [1, 3], and its placements give [4, 3]"),
        (lambda: load_sharded({"w": torch.zeros(3, 4)}, folder), "'w' has shape [3, 4], and [4, 3] in the checkpoint"),
        (lambda: load_sharded(None, folder, mesh=mesh, placements={"w": Shard(2)}), "'w' has 2 dimensions, and the placement Shard(dim=2)"),
        (lambda: load_sharded(None, folder, mesh=mesh, placements={"w": Partial()}), "'w' has the placement Partial(sum)"),
        (lambda: load_sharded(None, folder, mesh=mesh, placements={"w": [Shard(0)] * 2}), "expected a placement for each of the 1 mesh dimensions"),
        (lambda: load_sharded(None, folder, mesh=mesh, placements={"*.q": Shard(0)}), "placements: no tensor matches '*.q'"),
        (lambda: load_sharded(None, folder, mesh=mesh, placements={}, dtype="int8"), "cannot cast to I8: expected one of "),
        (lambda: load_sharded(None, folder, placements={}), "mesh is NoneType: without a target, give a DeviceMesh"),  # type: ignore[call-overload]
        (lambda: load_sharded({}, folder, mesh=mesh), "mesh, placements and dtype are those of the target"),  # type: ignore[call-overload]
    ):
        error = raised(call)
        assert text in str(error), error
        assert isinstance(error, RankError) == (dist.get_world_size() > 1)
    error = raised(lambda: load_sharded(None, folder, mesh=mesh, placements={"*.q": Shard(0)}))
    assert isinstance(error.__cause__ or error, MissingTensorError)


def names_the_rank_with_a_bad_argument(folder: Path) -> None:
    save_plain(folder, whole())
    bad = [("progress", "yes", "progress is str: give a bool or a function"), ("memory_limit", "1 elephant", "memory_limit '1 elephant' is invalid"), ("dtype", "bf16", "are those of the target")]
    for rank in {0, last()}:
        for name, value, text in bad:
            options: Any = {name: value} if dist.get_rank() == rank else {}
            state = zeroed(whole())
            error = raised(lambda state=state, options=options: load_sharded(state, folder, **options))
            assert text in str(error), error
            check_equal(state, zeroed(whole()))  # no rank has read
            assert dist.get_world_size() == 1 or (isinstance(error, RankError) and list(error.failures) == [rank]), error
    state = zeroed(whole())
    load_sharded(state, folder)  # the group is as good as before
    check_equal(state, whole())


def closes_its_progress_bar(folder: Path) -> None:
    """A bar is closed also if closing it fails. No bar begins if another rank fails before this rank reads."""
    save_plain(folder, whole())
    begun: list[int] = []
    ends: list[int] = []

    def end() -> None:
        ends.append(1)
        if dist.get_rank() == last():
            raise ValueError("no screen")

    played = types.SimpleNamespace(tqdm=lambda **options: begun.append(1) or types.SimpleNamespace(n=0, update=abs, close=end))
    with unittest.mock.patch.dict(sys.modules, {"tqdm": types.ModuleType("tqdm"), "tqdm.auto": played}):
        error = raised(lambda: load_sharded(zeroed(whole()), folder, progress=True))
        assert "no screen" in str(error) and isinstance(error, RankError) == (dist.get_world_size() > 1), error
        assert begun and ends
        begun.clear()
        raised(lambda: load_sharded(zeroed(whole()) | ({"more": torch.zeros(1)} if dist.get_rank() == 0 else {}), folder, progress=True))
        assert not begun


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def names_the_rank_that_fails(folder: Path) -> None:
    save_plain(folder, whole())
    state = zeroed(cut(whole(), meshes()[0], 2))
    gone = folder / "nowhere" if dist.get_rank() == last() else folder
    cases: list[tuple[Any, Any, str]] = [(FileNotFoundError, lambda: load_sharded(state, gone), "FileNotFoundError: ")]
    for fault, text in ((ValueError("enough"), "ValueError: enough"), (KeyboardInterrupt(), "KeyboardInterrupt: "), (Silent(), "Silent")):

        def progress(done: int, total: int, fault: BaseException = fault) -> None:
            if dist.get_rank() == last():
                raise fault

        cases.append((type(fault), lambda progress=progress: load_sharded(state, folder, progress=progress), text))
    for kind, call, text in cases:
        error = raised(call)
        if not last() or (kind is KeyboardInterrupt and dist.get_rank() == last()):
            assert type(error) is kind
        else:
            assert isinstance(error, RankError) and list(error.failures) == [last()] and error.failures[last()].startswith(text), text
            assert str(error).startswith(f"1 of {dist.get_world_size()} ranks failed: rank {last()}: {text}")
            assert (error.__cause__ is not None) == (dist.get_rank() == last())
    load_sharded(state, folder)  # the group is as good as before
    check_equal(state, cut(whole(), meshes()[0], 2))


def keeps_the_own_error_if_the_group_is_broken(folder: Path) -> None:
    with unittest.mock.patch.object(dist, "all_gather_object", side_effect=RuntimeError("gloo")):
        error = raised(lambda: load_sharded({}, folder / "nowhere"))
    assert isinstance(error, FileNotFoundError) or (str(error) == "gloo" and isinstance(error.__cause__, FileNotFoundError)), repr(error)
