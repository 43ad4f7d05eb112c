"""The command `safetensors` on checkpoints that transformers writes."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
from command_line import command, document
from conftest import framework

torch = framework("torch")

from test_programs import equal, tiny_llama  # noqa: E402

from safetensors import load, save  # noqa: E402
from safetensors.torch import save_file  # noqa: E402


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
    assert equal(type(model).from_pretrained(tmp_path / "split").state_dict(), model.state_dict())


WRITES: dict[str, list[list[str]]] = {  # FOLDER and INDEX are those of the model
    "cast": [["FOLDER", "FOLDER", "--to", "bf16", "--force"]],
    "split": [["FOLDER", "FOLDER", "--max-shard-size", "15KB", "--force"]],
    "select": [["FOLDER", "FOLDER", "--match", "*", "--force"]],
    "rename": [["FOLDER", "FOLDER", expression, "--force"] for expression in ("s/^model/other/", "s/^other/model/")],
    "meta": [["set", "FOLDER", "k=v"]],
    "merge": [["INDEX", "-o", "FOLDER/FILE", "--force"]],
}


@pytest.mark.parametrize("variant", [None, "fp16"])
def test_other_names_of_shards_are_kept(variant: str | None, tmp_path: Path) -> None:
    hub, model = framework("huggingface_hub"), tiny_llama(tied=False)
    model.save_pretrained(tmp_path, max_shard_size="20KB", variant=variant)
    [index] = tmp_path.glob("*.index*.json")
    if variant is None:  # the names of Qwen3.5
        for path in tmp_path.glob("model-*"):
            path.rename(tmp_path / path.name.replace("model-", "model.safetensors-"))
        index.write_text(index.read_text().replace('"model-', '"model.safetensors-'))
    want = model.to(torch.bfloat16).state_dict()
    merged = "model.fp16.safetensors" if variant else "model.safetensors"

    def check_that_others_read(case: str, files: set[str]) -> None:
        assert equal(type(model).from_pretrained(tmp_path, dtype="auto", variant=variant).state_dict(), want), case
        found: dict[str, object] = {}
        for file in files:
            found |= hub.load_state_dict_from_file(str(tmp_path / file))
        assert equal(found, want), case
        if variant is None:
            other = type(model)(model.config).to(torch.bfloat16)
            hub.load_torch_model(other, tmp_path)
            assert equal(other.state_dict(), want), case

    for verb, calls in WRITES.items():
        for call in calls:
            command(verb, *(word.replace("FOLDER", str(tmp_path)).replace("INDEX", str(index)).replace("FILE", merged) for word in call))
        files = {path.name for path in tmp_path.glob("*.safetensors")}
        if verb == "merge":
            assert merged in files
            for path in (index, *(tmp_path / file for file in files - {merged})):
                path.unlink(missing_ok=True)
            check_that_others_read(verb, {merged})
        else:
            assert list(tmp_path.glob("*.index*.json")) == [index] and set(json.loads(index.read_text())["weight_map"].values()) == files
            assert len(files) > 3 and all(name.startswith(f"model.{variant or 'safetensors'}-gen") for name in files)
            check_that_others_read(verb, files)
    if variant is None:
        save(load(tmp_path, framework="pt"), tmp_path, max_shard_size="20KB")
        check_that_others_read("save", {path.name for path in tmp_path.glob("*.safetensors")})


def test_split_writes_the_shards_of_huggingface_hub(tmp_path: Path) -> None:
    hub = framework("huggingface_hub")
    for seed in range(40):
        choose = random.Random(seed)
        model = {}
        for i in range(choose.randrange(20)):
            shape = [choose.randrange(60) for _ in range(choose.randrange(3))]
            model[f"t.{i}"] = torch.zeros(shape, dtype=choose.choice([torch.uint8, torch.float16, torch.float32, torch.int64]))
        file, folder, limit = tmp_path / f"{seed}.safetensors", tmp_path / str(seed), choose.choice([1, 64, 500, 3000, 10**5])
        save_file(model, file)
        command("split", file, folder, "--max-shard-size", limit)
        in_order = {name: model[name] for name in load(file)}
        expected = hub.split_torch_state_dict_into_shards(in_order, max_shard_size=limit)
        shards = {name: set(names) for name, names in expected.filename_to_tensors.items()} or {"model.safetensors": set()}
        assert {path.name: set(load(path)) for path in folder.glob("*.safetensors")} == shards, seed
        indexes = [json.loads(path.read_text()) for path in folder.glob("*.json")]
        assert indexes == [{"metadata": expected.metadata, "weight_map": expected.tensor_to_filename}][: expected.is_sharded], seed
