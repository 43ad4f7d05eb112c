"""The load format "safetensors_plan" in vLLM itself: its engine, and its models on two ranks."""

from __future__ import annotations

import importlib.metadata
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import ranks
from conftest import framework

os.environ.setdefault("HF_HUB_OFFLINE", "1")
framework("torch")
framework("vllm")

from programs import ranks_vllm  # noqa: E402


def is_case(value: Any) -> bool:
    return inspect.isfunction(value) and list(inspect.signature(value).parameters) == ["folder"]


CASES = [name for name, value in vars(ranks_vllm).items() if is_case(value)]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> ranks.Results:
    return ranks.run("programs.ranks_vllm", 2, tmp_path_factory.mktemp("ranks"), CASES)


@pytest.mark.parametrize("case", CASES)
def test_two_ranks(results: ranks.Results, case: str) -> None:
    assert results[case] == {}, "\n".join(results[case].values())


def test_vllm_finds_the_plugin() -> None:
    found = importlib.metadata.entry_points(group="vllm.general_plugins", name="safetensors_plan")
    assert [plugin.value for plugin in found] == ["safetensors._vllm:register"]


GENERATE = """
import sys, torch, transformers
from vllm import LLM, SamplingParams

folder = sys.argv[1]
config = transformers.LlamaConfig(
    vocab_size=128, hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=128,
)
torch.manual_seed(0)
transformers.LlamaForCausalLM(config).save_pretrained(folder, max_shard_size="200KB")
parameters = SamplingParams(temperature=0, max_tokens=12, detokenize=False)
for load_format, extra in [("safetensors", {}), ("safetensors_plan", {"memory_limit": "1MiB", "threads": 2})]:
    llm = LLM(folder, load_format=load_format, model_loader_extra_config=extra, skip_tokenizer_init=True,
              enforce_eager=True, dtype="float32", max_model_len=64)
    output = llm.generate([{"prompt_token_ids": [1, 5, 9, 33]}], parameters)
    print("tokens", *output[0].outputs[0].token_ids)
    del llm
"""


def test_the_engine_generates_what_it_does_with_vllm_s_loader(tmp_path: Path) -> None:
    options = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1"}
    options |= {"VLLM_NO_USAGE_STATS": "1", "VLLM_CACHE_ROOT": str(tmp_path / "cache")}
    options |= {"VLLM_PLUGINS": "safetensors_plan"}
    command = [sys.executable, "-c", GENERATE, str(tmp_path / "model")]
    done = subprocess.run(command, stdout=-1, stderr=-2, text=True, env={**os.environ, **options}, timeout=400)
    lines = [line for line in done.stdout.splitlines() if line.startswith("tokens")]
    assert done.returncode == 0 and len(lines) == 2, done.stdout[-4000:]
    assert lines[0] == lines[1] and len(lines[0].split()) == 13
