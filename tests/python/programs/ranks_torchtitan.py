"""What ranks do with torchtitan, which loads and saves through our package. Each function is a case: see ranks.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torchtitan.components.checkpoint import CheckpointManager
from torchtitan.models.llama3 import Llama3StateDictAdapter, llama3_configs

from safetensors.distributed import StorageReader
from safetensors.torch import load_file


LLAMA = [
    "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight",
    "model.layers.{}.self_attn.q_proj.weight", "model.layers.{}.self_attn.k_proj.weight",
    "model.layers.{}.self_attn.v_proj.weight", "model.layers.{}.self_attn.o_proj.weight",
    "model.layers.{}.mlp.gate_proj.weight", "model.layers.{}.mlp.up_proj.weight",
    "model.layers.{}.mlp.down_proj.weight", "model.layers.{}.input_layernorm.weight",
    "model.layers.{}.post_attention_layernorm.weight",
]  # fmt: skip


class PlannedAdapter(Llama3StateDictAdapter):  # type: ignore[misc]
    """The way to give torchtitan another reader."""

    def get_hf_storage_reader(self, path: str, from_quantized: bool = False) -> Any:
        assert not from_quantized
        return StorageReader(path)


def sharded(seed: int) -> tuple[Any, Any]:
    """torchtitan's small Llama, with shards of its parameters on each rank, and its configuration."""
    config = llama3_configs["debugmodel"](attn_backend="flex")
    model = config.build()
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.layers.values():
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh), config


def manager(model: Any, adapter: Any, folder: Path, **options: Any) -> Any:
    config = CheckpointManager.Config(enable=True, folder="checkpoint", **options)
    return CheckpointManager(
        config, dataloader=None, model_parts=[model], optimizers=None, lr_schedulers=None, states={},
        sd_adapter=adapter, base_folder=str(folder),
    )  # fmt: skip


def whole(model: Any) -> dict[str, torch.Tensor]:
    return {n: t.full_tensor() if isinstance(t, DTensor) else t for n, t in model.state_dict().items()}


def save_and_load(folder: Path, adapter_class: Any, assets: str | None = None) -> None:
    model, config = sharded(1)
    adapter = adapter_class(config, assets)
    manager(model, adapter, folder, last_save_in_hf=True).save(5, last_step=True)
    dist.barrier()
    step = folder / "checkpoint" / "step-5"
    files = sorted(step.glob("*.safetensors"))
    assert len(files) == (1 if assets is None else 3)
    stored: dict[str, torch.Tensor] = {}
    for file in files:
        stored |= load_file(file)
    want = adapter.to_hf(whole(model))
    assert stored.keys() == want.keys() and len(want) > 20
    assert all(torch.equal(stored[name], want[name]) for name in want)

    other, _ = sharded(2)
    loaded = manager(other, adapter, folder / "new", initial_load_path=str(step), initial_load_in_hf=True).load()
    assert loaded
    before, after = whole(model), whole(other)
    assert before.keys() == after.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert isinstance(next(iter(other.parameters())), DTensor)


def saves_and_loads_hugging_face_files(folder: Path) -> None:
    save_and_load(folder, Llama3StateDictAdapter)


def indexed(assets: Path) -> str:
    """Rank 0 writes an index of three files, as a model of the Hub has one."""
    names = [name for name in LLAMA if "{}" not in name]
    names += [name.format(layer) for name in LLAMA if "{}" in name for layer in range(6)]
    files = [f"model-{1 + i % 3:05}-of-00003.safetensors" for i in range(len(names))]
    if dist.get_rank() == 0:
        index = {"metadata": {}, "weight_map": dict(zip(names, files, strict=True))}
        (assets / "model.safetensors.index.json").write_text(json.dumps(index))
    dist.barrier()
    return str(assets)


def saves_and_loads_three_files(folder: Path) -> None:
    save_and_load(folder, Llama3StateDictAdapter, indexed(folder))


def loads_with_our_reader(folder: Path) -> None:
    save_and_load(folder, PlannedAdapter)


def loads_three_files_with_our_reader(folder: Path) -> None:
    save_and_load(folder, PlannedAdapter, indexed(folder))
