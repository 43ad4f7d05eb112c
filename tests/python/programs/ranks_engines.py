"""What ranks do with engines that load and save through our package. Each function is a case: see ranks.py."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import transformers
from torch.distributed.tensor import DTensor

import safetensors
from safetensors.distributed import StorageWriter
from safetensors.torch import load_file

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def as_torchrun_sets_it() -> None:
    rank, world_size = str(dist.get_rank()), str(dist.get_world_size())
    os.environ.update(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=world_size, LOCAL_WORLD_SIZE=world_size)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")


def llama(seed: int, tied: bool = False) -> Any:
    config = transformers.LlamaConfig(
        vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=tied,
    )  # fmt: skip
    torch.manual_seed(seed)
    return transformers.LlamaForCausalLM(config)


def mixtral() -> Any:
    config = transformers.MixtralConfig(
        vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2,
    )  # fmt: skip
    torch.manual_seed(3)
    return transformers.MixtralForCausalLM(config)


def saved(model: Any, folder: Path, shard: str = "20KB") -> dict[str, torch.Tensor]:
    """Rank 0 saves the model. Returns its values, and the ranks go on when the files are complete."""
    if dist.get_rank() == 0:
        model.save_pretrained(folder, max_shard_size=shard)
        assert len(list(folder.glob("*.safetensors"))) > 3
    dist.barrier()
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def equal_whole(model: Any, want: dict[str, torch.Tensor]) -> None:
    state = model.state_dict()
    assert state.keys() == want.keys()
    for name, tensor in state.items():
        assert torch.equal(whole(tensor), want[name]), name


def tensor_parallel(folder: Path, **options: Any) -> Any:
    from transformers.distributed import DistributedConfig

    config = DistributedConfig(tp_size=dist.get_world_size(), tp_plan="auto")
    return transformers.AutoModelForCausalLM.from_pretrained(folder, distributed_config=config, **options)


def transformers_loads_tensor_parallel(folder: Path) -> None:
    as_torchrun_sets_it()
    plain = llama(1)
    want = saved(plain, folder)
    model = tensor_parallel(folder)
    count, rank = dist.get_world_size(), dist.get_rank()
    for name, dim in (("model.layers.1.self_attn.q_proj.weight", 0), ("model.layers.2.mlp.down_proj.weight", 1)):
        part = model.get_parameter(name)
        local = part.to_local() if isinstance(part, DTensor) else part
        assert torch.equal(local, want[name].chunk(count, dim)[rank]), name
    equal_whole(model, want)
    ids = torch.arange(10)[None]
    assert torch.allclose(whole(model(ids).logits), plain.eval()(ids).logits, atol=1e-5)


def transformers_loads_experts_tensor_parallel(folder: Path) -> None:
    """Experts are saved one by one, and loaded into one tensor per layer."""
    as_torchrun_sets_it()
    plain = mixtral()
    saved(plain, folder)
    model = tensor_parallel(folder)
    ids = torch.arange(10)[None]
    assert torch.allclose(whole(model(ids).logits), plain.eval()(ids).logits, atol=1e-5)


def transformers_saves_tensor_parallel(folder: Path) -> None:
    as_torchrun_sets_it()
    want = saved(llama(5), folder)
    model = tensor_parallel(folder)
    again = folder / "again"
    model.save_pretrained(again, max_shard_size="20KB")
    dist.barrier()
    index = json.loads((again / "model.safetensors.index.json").read_text())
    found: dict[str, torch.Tensor] = {}
    for file in sorted(set(index["weight_map"].values())):
        found |= load_file(again / file)
    assert found.keys() == want.keys()
    assert all(torch.equal(found[name], want[name]) for name in want)
    equal_whole(transformers.AutoModelForCausalLM.from_pretrained(again), want)


def sharded_llama(seed: int, tied: bool = False) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = llama(seed, tied)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def transformers_loads_what_ranks_saved(folder: Path) -> None:
    for number, (tied, size, metadata) in enumerate(((False, 20_000, None), (True, "1MB", {"format": "pt"}))):
        made, model, want = folder / str(number), sharded_llama(13, tied), llama(13, tied).state_dict()
        dcp.save(model.state_dict(), storage_writer=StorageWriter(made, max_shard_size=size, metadata=metadata))
        if dist.get_rank() == 0:
            model.config.save_pretrained(made)
            assert (made / "model.safetensors.index.json").exists() == (not tied)
        dist.barrier()
        loaded, info = transformers.LlamaForCausalLM.from_pretrained(made, output_loading_info=True)
        assert not any(info.values()), info
        equal_whole(loaded, want)


def accelerate_loads_into_fsdp(folder: Path) -> None:
    """Each rank reads all, and keeps its shards."""
    import accelerate

    want = saved(llama(7), folder)
    model = sharded_llama(8)
    accelerate.load_checkpoint_in_model(model, str(folder))
    assert isinstance(model.lm_head.weight, DTensor)
    equal_whole(model, want)


def accelerate_saves_and_loads_state(folder: Path) -> None:
    """On the CPU, prepare() makes a DistributedDataParallel: accelerate ignores its FSDP plugin there."""
    import accelerate

    as_torchrun_sets_it()
    accelerator = accelerate.Accelerator(cpu=True)
    assert accelerator.num_processes == dist.get_world_size()
    model = accelerator.prepare(llama(11))
    want = {name: tensor.clone() for name, tensor in accelerator.unwrap_model(model).state_dict().items()}
    accelerator.save_state(str(folder / "state"))
    accelerator.save_model(model, str(folder / "model"), max_shard_size="20KB")
    accelerator.wait_for_everyone()
    assert (folder / "state" / "model.safetensors").exists()
    assert len(list((folder / "model").glob("*.safetensors"))) > 3
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    accelerator.load_state(str(folder / "state"))
    equal_whole(accelerator.unwrap_model(model), want)
    plain = llama(12)
    accelerate.load_checkpoint_in_model(plain, str(folder / "model"))
    equal_whole(plain, want)


assert "cpp" in safetensors.__version__, f"these are tests of our package, found {safetensors.__version__}"
