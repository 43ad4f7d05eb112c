"""What ranks do with models of transformers. Each function is a case: see ranks.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

from safetensors.distributed import StorageWriter


def make(tied: bool) -> Any:
    torch.manual_seed(4)
    config = LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=tied)
    return LlamaForCausalLM(config)


def from_pretrained_loads_what_ranks_saved(folder: Path) -> None:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for number, (tied, size, metadata) in enumerate(((False, 5_000, None), (True, "1MB", {"format": "pt"}))):
        made, model = folder / str(number), make(tied)
        expected = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        dcp.save(model.state_dict(), storage_writer=StorageWriter(made, max_shard_size=size, metadata=metadata))
        if dist.get_rank() == 0:
            model.config.save_pretrained(made)
            assert (made / "model.safetensors.index.json").exists() == (not tied)
        dist.barrier()
        loaded, info = LlamaForCausalLM.from_pretrained(made, output_loading_info=True)
        assert not any(info.values()), info
        for name, tensor in loaded.state_dict().items():
            assert torch.equal(tensor, expected[name]), name
        assert json.loads((made / "config.json").read_text())["vocab_size"] == 32
