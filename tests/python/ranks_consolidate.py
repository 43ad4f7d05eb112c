"""What ranks leave for consolidate. Each function is a case: see ranks.py."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ranks_dcp import cut, meshes, whole
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

from safetensors.distributed import consolidate
from safetensors.torch import save_checkpoint


def check(folder: Path, path: Path, full: dict[str, Any], **options: Any) -> None:
    """Rank 0 consolidates. The files are those of `save_checkpoint` for the whole tensors."""
    if dist.get_rank() == 0:
        ordered = {name: full[name] for name in sorted(full)}
        for size in (100, "5GB"):
            one, other = folder / f"{path.name}-one-{size}", folder / f"{path.name}-other-{size}"
            given = {"max_shard_size": size, "durability": "none"}
            assert consolidate(path, one, **given, **options) == options.get("others", [])
            save_checkpoint(ordered, other, metadata={"format": "pt"}, **given)
            names = sorted(file.name for file in one.iterdir())
            assert names == sorted(file.name for file in other.iterdir())
            for name in names:
                assert (one / name).read_bytes() == (other / name).read_bytes(), (name, size)
    dist.barrier()


def consolidates_files_of_ranks(folder: Path) -> None:
    full = {name: t for name, t in whole().items() if t.dim() and t.numel()}
    for number, mesh in enumerate(meshes()):
        for seed in range(2):
            path = folder / f"{number}-{seed}"
            dcp.save(cut(full, mesh, seed), storage_writer=HuggingFaceStorageWriter(str(path), save_distributed=True))
            check(folder, path, full)
            check(folder, path, full, memory_limit=64)


def consolidates_files_of_dcp(folder: Path) -> None:
    for number, mesh in enumerate(meshes()):
        for seed in range(2):
            path = folder / f"{number}-{seed}"
            dcp.save(cut(whole(), mesh, seed), checkpoint_id=path)
            check(folder, path, whole())
            check(folder, path, whole(), memory_limit="200B")


def consolidates_a_training_state(folder: Path) -> None:
    """A model that learned a step under FSDP2, with its optimizer, and values that are not tensors."""
    from torch.distributed.checkpoint.state_dict import get_state_dict
    from torch.distributed.fsdp import fully_shard

    from safetensors import load

    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Linear(7, 3))
    fully_shard(model, mesh=meshes()[0])
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 5)).sum().backward()
    optimizer.step()
    weights, moments = get_state_dict(model, optimizer)
    with contextlib.redirect_stderr(io.StringIO()):
        dcp.save({"model": weights, "optimizer": moments, "epoch": 3}, checkpoint_id=folder / "in")
    expected = {name: tensor.full_tensor() for name, tensor in weights.items()}
    if dist.get_rank() == 0:
        left_out = consolidate(folder / "in", folder / "out", keys=["model.*"], rename=lambda name: name.removeprefix("model."))
        assert left_out == []
        found = load(folder / "out", framework="pt")
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in expected)
        assert "epoch" in consolidate(folder / "in", folder / "all", skip_others=True)
        assert "optimizer.state.0.weight.exp_avg" in load(folder / "all", framework="pt")
    dist.barrier()
