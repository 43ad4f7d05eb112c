"""Programs that do `import safetensors`, run as they are on our package."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import slow_files
from conftest import framework

os.environ.setdefault("HF_HUB_OFFLINE", "1")
torch = framework("torch")

import safetensors  # noqa: E402
from safetensors import safe_open  # noqa: E402
from safetensors.torch import load_file  # noqa: E402


def equal(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[slow_files.Mounted]:
    """A mounted FUSE file system with the folder "model"."""
    source, mounted = slow_files.folders(tmp_path, "source", "mounted")
    tiny_llama().save_pretrained(source / "model")
    with slow_files.mounted(source, mounted) as files:
        yield files


def tiny_llama(tied: bool = True) -> Any:
    transformers = framework("transformers")
    config = transformers.LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=tied,
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config)


def tiny_unet() -> Any:
    return framework("diffusers").UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"),
    )  # fmt: skip


def test_the_package_in_use_is_ours() -> None:
    assert "cpp" in safetensors.__version__ and hasattr(safetensors, "_native")
    # With SAFETENSORS_CPP=1 the package stands next to the reference, whose version the programs ask for.
    expected = safetensors.__version__ if safetensors.__name__ == "safetensors" else "0.8.0"
    assert importlib.metadata.version("safetensors") == expected


def test_programs_accept_the_version() -> None:
    packaging = pytest.importorskip("packaging.requirements")
    found = 0
    for program in ("transformers", "diffusers", "accelerate", "peft"):
        for line in importlib.metadata.requires(program) or []:
            wanted = packaging.Requirement(line)
            if wanted.name == "safetensors" and wanted.marker is None:
                found += 1
                assert wanted.specifier.contains(safetensors.__version__, prereleases=True), line
    assert found >= 3


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("shard", ["5GB", "20KB"])
def test_transformers_saves_and_loads_a_llama(tied: bool, shard: str, tmp_path: Path) -> None:
    model = tiny_llama(tied)
    model.save_pretrained(tmp_path, max_shard_size=shard)
    files = sorted(p.name for p in tmp_path.glob("*.safetensors"))
    if shard == "5GB":
        assert files == ["model.safetensors"]
        with safe_open(tmp_path / "model.safetensors", "pt") as f:
            assert f.metadata() == {"format": "pt"}
            assert ("lm_head.weight" in f.keys()) == (not tied)
    else:
        assert len(files) > 3
        index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
        assert set(index["weight_map"].values()) == set(files)
    again = type(model).from_pretrained(tmp_path)
    assert equal(model.state_dict(), again.state_dict())
    assert (again.lm_head.weight.data_ptr() == again.model.embed_tokens.weight.data_ptr()) == tied
    ids = torch.arange(10)[None]
    assert torch.equal(model(ids).logits, again(ids).logits)


def test_transformers_loads_in_half_precision(tmp_path: Path) -> None:
    model = tiny_llama()
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path, dtype=torch.bfloat16)
    want = {k: v.to(torch.bfloat16) for k, v in model.state_dict().items()}
    assert equal(again.state_dict(), want)
    again.save_pretrained(tmp_path / "half")
    assert equal(type(model).from_pretrained(tmp_path / "half", dtype="auto").state_dict(), want)


@pytest.mark.parametrize("shard", ["5GB", "20KB"])
def test_huggingface_hub_saves_and_loads_a_model(shard: str, tmp_path: Path) -> None:
    hub = framework("huggingface_hub")
    model = tiny_llama()
    hub.save_torch_model(model, str(tmp_path), max_shard_size=shard)
    other = type(model)(model.config)
    result = hub.load_torch_model(other, str(tmp_path))
    assert not result.unexpected_keys
    assert equal(model.state_dict(), other.state_dict())


def test_huggingface_hub_saves_a_state_dict_and_reads_headers(tmp_path: Path) -> None:
    hub = framework("huggingface_hub")
    state = {"a": torch.arange(10), "b": torch.ones(3, 4), "c": torch.zeros(2, dtype=torch.bfloat16)}
    hub.save_torch_state_dict(state, str(tmp_path), metadata={"k": "v"})
    path = tmp_path / "model.safetensors"
    assert equal(load_file(path), state)
    assert equal(hub.load_state_dict_from_file(str(path)), state)
    with safe_open(path, "pt") as f:
        assert f.metadata()["k"] == "v"
    parsed = hub.parse_local_safetensors_file_metadata(path)
    assert set(parsed.tensors) == set(state)
    assert parsed.parameter_count == {"I64": 10, "F32": 12, "BF16": 2}
    assert parsed.tensors["b"].shape == [3, 4] and parsed.metadata["k"] == "v"


@pytest.mark.parametrize("where", ["cpu", "disk"])
def test_accelerate_loads_and_dispatches(where: str, tmp_path: Path) -> None:
    accelerate = framework("accelerate")
    model = tiny_llama(tied=False)
    model.save_pretrained(tmp_path / "model", max_shard_size="20KB")
    with accelerate.init_empty_weights():
        empty = type(model)(model.config)
    places = {name: "cpu" for name in ("model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head")}
    places |= {f"model.layers.{i}": where for i in range(3)}
    loaded = accelerate.load_checkpoint_and_dispatch(
        empty, str(tmp_path / "model"), device_map=places, offload_folder=str(tmp_path / "offload")
    )
    ids = torch.arange(10)[None]
    assert torch.equal(model(ids).logits, loaded(ids).logits)


def test_diffusers_saves_and_loads_a_unet(tmp_path: Path) -> None:
    unet = tiny_unet()
    unet.save_pretrained(tmp_path)
    assert (tmp_path / "diffusion_pytorch_model.safetensors").exists()
    assert equal(unet.state_dict(), type(unet).from_pretrained(tmp_path).state_dict())


def test_peft_saves_and_loads_an_adapter(tmp_path: Path) -> None:
    peft = framework("peft")
    base = tiny_llama()
    model = peft.get_peft_model(base, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
    ids = torch.arange(10)[None]
    want = model(ids).logits
    model.save_pretrained(tmp_path)
    assert (tmp_path / "adapter_model.safetensors").exists()
    again = peft.PeftModel.from_pretrained(tiny_llama(), tmp_path)
    assert torch.equal(again(ids).logits, want)
    saved = peft.get_peft_model_state_dict(model)
    assert equal(load_file(tmp_path / "adapter_model.safetensors"), saved)


def test_transformers_loads_from_fuse_without_a_map(slow: slow_files.Mounted) -> None:
    """transformers passes backend="mmap", which is the default of the reference, and so no request for a map."""
    transformers = framework("transformers")
    model = transformers.LlamaForCausalLM.from_pretrained(slow.path / "model")
    assert str(slow.path) not in Path("/proc/self/maps").read_text()
    assert equal(model.state_dict(), tiny_llama().state_dict())


FROM_PRETRAINED = """
import sys, transformers
print("ready", flush=True)
sys.stdin.readline()
try:
    model = transformers.LlamaForCausalLM.from_pretrained(sys.argv[1])
    print(sum(p.sum() for p in model.parameters()))
except OSError as error:
    print(error.errno)
"""


@pytest.mark.parametrize("backend", ["", "mmap"])
def test_transformers_reports_errors_of_fuse(backend: str, slow: slow_files.Mounted) -> None:
    framework("transformers")
    size = (slow.source / "model" / "model.safetensors").stat().st_size
    command = [sys.executable, "-c", FROM_PRETRAINED, str(slow.path / "model")]
    environment = {**os.environ, "SAFETENSORS_BACKEND": backend}
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=environment) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        slow.fail_from(size // 2)
        output = process.communicate("go\n")[0]
    expected = (-signal.SIGBUS, "") if backend == "mmap" else (0, "5\n")
    assert (process.returncode, output) == expected
