"""The command `safetensors` on checkpoints that transformers, diffusers and peft write."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command_line import command, document
from conftest import framework

torch = framework("torch")

from test_programs import equal, tiny_llama  # noqa: E402

from safetensors import load  # noqa: E402


@pytest.mark.parametrize("tied", [True, False])
def test_a_sharded_model_of_transformers(tied: bool, tmp_path: Path) -> None:
    model = tiny_llama(tied)
    source = tmp_path / "source"
    model.save_pretrained(source, max_shard_size="20KB")
    assert "error" not in command("verify", source)
    found = {t["name"]: t for t in document("stats", source)["files"][0]["tensors"]}
    for name, value in load(source, framework="pt").items():
        assert found[name]["min"] == pytest.approx(float(value.min()))
        assert found[name]["mean"] == pytest.approx(float(value.double().mean()), abs=1e-9)

    command("merge", source, "-o", tmp_path / "one.safetensors")
    command("split", tmp_path / "one.safetensors", tmp_path / "split", "--max-shard-size", "30KB")
    command("merge", tmp_path / "split", "-o", tmp_path / "again.safetensors")
    one, again = tmp_path / "one.safetensors", tmp_path / "again.safetensors"
    assert one.read_bytes() == again.read_bytes()
    command("diff", source, again)

    shutil.copy(source / "config.json", tmp_path / "split")
    loaded = type(model).from_pretrained(tmp_path / "split")
    assert equal(loaded.state_dict(), model.state_dict())

    command("cast", source, tmp_path / "half", "--to", "bf16")
    shutil.copy(source / "config.json", tmp_path / "half")
    half = type(model).from_pretrained(tmp_path / "half", dtype="auto")
    assert equal(half.state_dict(), model.to(torch.bfloat16).state_dict())


def test_an_adapter_of_peft(tmp_path: Path) -> None:
    peft = framework("peft")
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    peft.get_peft_model(tiny_llama(), config).save_pretrained(tmp_path)
    file = tmp_path / "adapter_model.safetensors"
    assert "LoRA" in command("info", tmp_path)
    command("verify", tmp_path)
    command("rename", file, tmp_path / "renamed.safetensors", "s/^base_model\\.model\\.//")
    names = set(load(tmp_path / "renamed.safetensors"))
    assert names == {name.removeprefix("base_model.model.") for name in load(file)}


def test_a_unet_of_diffusers(tmp_path: Path) -> None:
    diffusers = framework("diffusers")
    unet = diffusers.UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8, 8),
        norm_num_groups=4, down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    unet.save_pretrained(tmp_path / "unet", max_shard_size="10KB")
    command("verify", tmp_path / "unet")
    command("split", tmp_path / "unet", tmp_path / "other", "--max-shard-size", "30KB")
    shards = sorted(path.name for path in (tmp_path / "other").glob("*.safetensors"))
    assert 1 < len(shards) < len(list((tmp_path / "unet").glob("*.safetensors")))
    command("diff", tmp_path / "unet", tmp_path / "other")
