"""What ranks do with the load format "safetensors_plan" of vLLM. Each function is a case: see ranks.py.

Each case makes a small model of transformers, and vLLM's own model of it twice: loaded by vLLM's own
loader, and by ours. All parameters and buffers must be equal.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", VLLM_LOGGING_LEVEL="WARNING")
os.environ["VLLM_DIST_IDENT"] = f"tests{os.getpid()}"  # the same in all ranks: they are forked later

import torch
import torch.distributed as dist
import transformers
from vllm.config import set_current_vllm_config
from vllm.distributed import parallel_state
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.model_loader import get_model_loader
from vllm.model_executor.models import gpt2, llama, mixtral, phi3, qwen2, qwen3_moe
from vllm.model_executor.models.registry import ModelRegistry
from vllm.utils.torch_utils import set_default_torch_dtype

from safetensors import _vllm

_vllm.register()

# Otherwise each rank starts a process per class, which imports vLLM to look at the class.
for model_class in (
    gpt2.GPT2LMHeadModel, llama.LlamaForCausalLM, mixtral.MixtralForCausalLM, phi3.Phi3ForCausalLM,
    qwen2.Qwen2ForCausalLM, qwen3_moe.Qwen3MoeForCausalLM,
):  # fmt: skip
    ModelRegistry.register_model(model_class.__name__, model_class)

SIZES = dict(
    vocab_size=256, hidden_size=128, intermediate_size=256, num_hidden_layers=4,
    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
)  # fmt: skip


def save(name: str, folder: Path, **options: Any) -> None:
    """Rank 0 saves a model with random values, also where transformers begins with zeros or ones."""
    if dist.get_rank() == 0:
        config = getattr(transformers, name + "Config")(**options)
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_()
        model.save_pretrained(folder, max_shard_size="300KB")
    dist.barrier()


@contextmanager
def configured(folder: Path, load_format: str, extra: dict[str, Any], **parallel: Any) -> Iterator[Any]:
    arguments = EngineArgs(
        model=str(folder), load_format=load_format, skip_tokenizer_init=True, enforce_eager=True,
        dtype="float32", max_model_len=64, distributed_executor_backend="external_launcher",
        model_loader_extra_config=extra, **parallel,
    )  # fmt: skip
    os.environ.update(RANK=str(dist.get_rank()), LOCAL_RANK=str(dist.get_rank()))
    os.environ.update(WORLD_SIZE=str(dist.get_world_size()))
    config = arguments.create_engine_config()
    with set_current_vllm_config(config):
        if parallel_state._WORLD is None:
            parallel_state.init_distributed_environment(
                dist.get_world_size(), dist.get_rank(), "env://", dist.get_rank(), "gloo"
            )
        parallel_state.initialize_model_parallel(
            config.parallel_config.tensor_parallel_size, config.parallel_config.pipeline_parallel_size
        )
        try:
            yield config
        finally:
            parallel_state.destroy_model_parallel()


def load(folder: Path, load_format: str, extra: dict[str, Any], **parallel: Any) -> Any:
    """Return the tensors of the model, and the loader."""
    with configured(folder, load_format, extra, **parallel) as config:
        loader = get_model_loader(config.load_config)
        with set_default_torch_dtype(torch.float32):
            model = loader.create_model(vllm_config=config, model_config=config.model_config)
            loader.load_weights(model, config.model_config)
        return {**dict(model.named_parameters()), **dict(model.named_buffers())}, loader


def compare(folder: Path, **parallel: Any) -> tuple[int, int]:
    """Return the number of bytes of the slices that ours used, and that the tensors of this rank have."""
    want, _ = load(folder, "safetensors", {}, **parallel)
    for limit in ("100KB", "64MiB"):
        got, loader = load(folder, "safetensors_plan", {"memory_limit": limit, "threads": 2}, **parallel)
        assert got.keys() == want.keys() and len(want) > 10
        for name, tensor in want.items():
            assert type(got[name]) is type(tensor), name
            assert torch.equal(got[name], tensor), name
    ((used, read, _),) = loader.reads
    assert used <= read
    return used, sum(tensor.nbytes for tensor in want.values())


def tensor_parallel_llama(folder: Path) -> None:
    save("Llama", folder, **SIZES)
    read, own = compare(folder, tensor_parallel_size=2)
    assert own * 0.9 < read <= own * 1.05


def tensor_parallel_llama_with_tied_embeddings(folder: Path) -> None:
    save("Llama", folder, **SIZES, tie_word_embeddings=True)
    read, own = compare(folder, tensor_parallel_size=2)
    assert read <= own * 1.05


def tensor_parallel_qwen2(folder: Path) -> None:
    """With biases."""
    save("Qwen2", folder, **SIZES)
    read, own = compare(folder, tensor_parallel_size=2)
    assert read <= own * 1.05


def tensor_parallel_phi3(folder: Path) -> None:
    """With one tensor for queries, keys and values, of which a rank needs three parts."""
    save("Phi3", folder, **SIZES, pad_token_id=0, eos_token_id=1)
    read, own = compare(folder, tensor_parallel_size=2)
    assert read <= own * 1.05


def tensor_parallel_gpt2(folder: Path) -> None:
    """With transposed weights."""
    save("GPT2", folder, vocab_size=256, n_embd=128, n_layer=3, n_head=4, n_positions=128)
    compare(folder, tensor_parallel_size=2)


MIXTRAL = dict(num_local_experts=8, num_experts_per_tok=2)
QWEN3_MOE = dict(
    num_experts=8, num_experts_per_tok=2, moe_intermediate_size=64, head_dim=32, decoder_sparse_step=1
)


def tensor_parallel_mixtral(folder: Path) -> None:
    save("Mixtral", folder, **SIZES, **MIXTRAL)
    read, own = compare(folder, tensor_parallel_size=2)
    assert read <= own * 1.05


def expert_parallel_mixtral(folder: Path) -> None:
    """Without vLLM's own filter of experts."""
    save("Mixtral", folder, **SIZES, **MIXTRAL)
    read, own = compare(folder, tensor_parallel_size=2, enable_expert_parallel=True)
    assert read <= own * 1.05


def expert_parallel_qwen3_moe_with_filter(folder: Path) -> None:
    save("Qwen3Moe", folder, **SIZES, **QWEN3_MOE)
    parallel = dict(tensor_parallel_size=2, enable_expert_parallel=True, enable_ep_weight_filter=True)
    read, own = compare(folder, **parallel)
    assert read <= own * 1.05


def pipeline_parallel_llama(folder: Path) -> None:
    save("Llama", folder, **SIZES)
    read, own = compare(folder, pipeline_parallel_size=2)
    assert read <= own * 1.05


def pipeline_parallel_qwen3_moe(folder: Path) -> None:
    save("Qwen3Moe", folder, **SIZES, **QWEN3_MOE)
    read, own = compare(folder, pipeline_parallel_size=2)
    assert read <= own * 1.05


def a_truncated_file_is_an_error(folder: Path) -> None:
    save("Llama", folder, **SIZES)
    broken = sorted(folder.glob("*.safetensors"))[1]
    if dist.get_rank() == 0:
        os.truncate(broken, broken.stat().st_size - 1000)
    dist.barrier()
    try:
        load(folder, "safetensors_plan", {}, tensor_parallel_size=2)
    except Exception as error:
        assert broken.name in str(error) + "".join(getattr(error, "__notes__", []))
    else:
        raise AssertionError("no error")


def an_unknown_option_is_an_error(folder: Path) -> None:
    save("Llama", folder, **SIZES)
    try:
        load(folder, "safetensors_plan", {"memory": 1}, tensor_parallel_size=2)
    except ValueError as error:
        assert str(error).startswith("model_loader_extra_config has ['memory']")
    else:
        raise AssertionError("no error")
