"""consolidate: folders that ranks of torch have written, memory, arguments, devices."""

from __future__ import annotations

import inspect
import json
import math
import os
import random
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import framework

torch = framework("torch")

import ranks  # noqa: E402
import ranks_consolidate  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402

import safetensors.numpy as stn  # noqa: E402
from safetensors import Checkpoint, MissingTensorError, SafetensorError, load  # noqa: E402
from safetensors._dcp.consolidate import _cut, _StoredFiles  # noqa: E402
from safetensors._ranks.boxes import Box, check_cover  # noqa: E402
from safetensors.distributed import consolidate  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")

CASES = [n for n, f in vars(ranks_consolidate).items() if inspect.isfunction(f) and f.__module__ == "ranks_consolidate" and list(inspect.signature(f).parameters) == ["folder"]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made: dict[int, ranks.Results] = {}

    def get(world_size: int) -> ranks.Results:
        if world_size not in made:
            made[world_size] = ranks.run("ranks_consolidate", world_size, tmp_path_factory.mktemp(f"consolidate{world_size}"), CASES)
        return made[world_size]

    return get


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_ranks(results: Any, world_size: int, case: str) -> None:
    assert results(world_size)[case] == {}, "\n".join(results(world_size)[case].values())


# --- arguments ---


def saved(folder: Path, **more: Any) -> Path:
    dcp.save({"a.w": torch.arange(6.0).reshape(2, 3), "a.b": torch.zeros(3), "c": torch.ones(1), **more}, checkpoint_id=folder)
    return folder


def test_chooses_and_renames(tmp_path: Path) -> None:
    path = saved(tmp_path / "in", epoch=3, note="text")
    assert consolidate(path, tmp_path / "a", keys=["a.*"], rename={"a.w": "w"}) == []
    assert sorted(load(tmp_path / "a", framework="pt")) == ["a.b", "w"]
    assert consolidate(path, tmp_path / "b", skip_others=True) == ["epoch", "note"]
    assert sorted(load(tmp_path / "b", framework="pt")) == ["a.b", "a.w", "c"]
    assert consolidate(path, tmp_path / "c", keys=["epoch", "c"], skip_others=True, metadata={"x": "y"}) == ["epoch"]
    with closing(Checkpoint(tmp_path / "c")) as checkpoint:
        assert checkpoint.metadata() == {"x": "y"} and list(checkpoint) == ["c"]


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({}, SafetensorError, "a safetensors file holds tensors only, and these values are none: 'epoch' (skip_others=True"),
        ({"keys": ["epoch"]}, SafetensorError, "these values are none: 'epoch'"),
        ({"keys": ["d"]}, MissingTensorError, "keys: there is no tensor 'd'"),
        ({"keys": ["d*"]}, MissingTensorError, "keys: no tensor matches the pattern 'd*'"),
        ({"keys": ["a.*"], "rename": {"d": "e"}}, MissingTensorError, "rename: there is no tensor 'd'"),
        ({"keys": ["a.*"], "rename": lambda name: "w"}, SafetensorError, "rename gives two tensors the name 'w'"),
        ({"keys": ["a.*"], "memory_limit": -1}, ValueError, "memory_limit is -1: give a number of bytes"),
        ({"keys": ["a.*"], "memory_limit": "much"}, ValueError, "memory_limit 'much' is invalid"),
    ],
)
def test_refuses_arguments(tmp_path: Path, options: dict[str, Any], kind: type[Exception], text: str) -> None:
    path = saved(tmp_path / "in", epoch=3)
    with pytest.raises(kind) as raised:
        consolidate(path, tmp_path / "out", **options)
    assert text in str(raised.value)
    assert os.listdir(tmp_path) == ["in"]


def test_refuses_folders(tmp_path: Path) -> None:
    path = saved(tmp_path / "in")
    with pytest.raises(ValueError, match="path_out is path_in, '.*': give another folder"):
        consolidate(path, tmp_path / "." / "in")
    with pytest.raises(FileNotFoundError):
        consolidate(tmp_path / "nothing", tmp_path / "out")
    (tmp_path / "out").mkdir()
    with pytest.raises(SafetensorError, match="cannot create a new folder, the path is in use"):
        consolidate(path, tmp_path / "out", new_folder=True)
    (path / ".metadata").unlink()
    with pytest.raises(SafetensorError, match=r"in has files \*.distcp and no .metadata: torch writes it last, so the save did not end"):
        consolidate(path, tmp_path / "out")


def test_reports_progress_and_ends(tmp_path: Path) -> None:
    path = saved(tmp_path / "in")
    told: list[tuple[int, int]] = []
    consolidate(path, tmp_path / "out", progress=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] == (tmp_path / "out/model.safetensors").stat().st_size

    def fail(done: int, total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        consolidate(path, tmp_path / "other", progress=fail)
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]


def test_the_example_of_the_document_runs(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/distributed.md").read_text()
    program, printed = re.findall(r"^```(?:py|txt)\n(.*?)^```$", text.partition("## consolidate\n")[2].partition("\n## ")[0], re.S | re.M)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout == printed, done.stdout + done.stderr


# --- other checkpoints ---


def shard(folder: Path, rank: int, tensors: dict[str, Any], offsets: dict[str, list[int]]) -> None:
    metadata = {"DCP_SHARDING_INFO": json.dumps({name: {"saved_offsets": found} for name, found in offsets.items()})}
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / f"shard-{rank:05d}-model-00001-of-00001.safetensors", metadata, durability="none")


def test_joins_packed_dtypes(tmp_path: Path) -> None:
    packed = torch.arange(24, dtype=torch.uint8).reshape(4, 6).view(torch.float4_e2m1fn_x2)
    for rank in range(2):
        own = packed.view(torch.uint8)[:, 3 * rank : 3 * rank + 3].contiguous().view(torch.float4_e2m1fn_x2)
        shard(tmp_path / "in", rank, {"f4": own}, {"f4": [0, 3 * rank]})
    consolidate(tmp_path / "in", tmp_path / "out", memory_limit=8)
    found = load(tmp_path / "out", framework="pt")["f4"]
    assert torch.equal(found.view(torch.uint8), packed.view(torch.uint8))


def test_puts_columns_together(tmp_path: Path) -> None:
    """One write per row of a rank would be 400,000 writes."""
    columns = torch.arange(400_000.0).reshape(-1, 2)
    for rank in range(2):
        shard(tmp_path / "in", rank, {"w": columns[:, rank : rank + 1].contiguous()}, {"w": [0, rank]})
    with closing(_StoredFiles(tmp_path / "in")) as files:
        blocks = list(files.read(["w"], 1 << 20))
    assert [box.sizes[1] for _, box, _ in blocks] == [2] * 7
    assert torch.equal(torch.cat([block for _, _, block in blocks]), columns)


def test_splits_plain_checkpoints_again(tmp_path: Path, make: Any) -> None:
    path = make('{"w":{"dtype":"U8","shape":[2],"data_offsets":[3,5]},"six":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}}', b"\1\2\3\4\5")
    consolidate(path, tmp_path / "out", max_shard_size=3)
    found = stn.load_checkpoint(tmp_path / "out")
    assert found["w"].tolist() == [4, 5] and bytes(found["six"]) == b"\1\2\3"
    assert len(list((tmp_path / "out").glob("*.safetensors"))) == 2


# --- memory ---


def test_cuts_boxes_within_the_limit() -> None:
    choose = random.Random(5)
    for _ in range(500):
        sizes = tuple(choose.randint(1, 6) for _ in range(choose.randint(0, 3)))
        offsets = tuple(choose.randint(0, 9) for _ in sizes)
        limit = choose.randint(0, 100)
        pieces = list(_cut(Box(offsets, sizes), limit, 4))
        moved = [Box(tuple(o - p for o, p in zip(box.offsets, offsets, strict=True)), box.sizes) for box in pieces]
        assert check_cover(moved, sizes) is None
        assert all(4 * box.elements <= max(limit, 4) for box in pieces)
        assert len(pieces) == 1 or len(pieces) <= 2 * math.prod(sizes)


PROGRAM = """
import resource, sys
from safetensors.distributed import consolidate
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
consolidate(sys.argv[1], sys.argv[2], memory_limit=sys.argv[3], durability="none")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def peak(path: Path, out: Path, limit: str) -> int:
    """MiB of memory that consolidate needs in a process of its own."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(path), str(out), limit], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return int(done.stdout) // 1024


def test_keeps_to_the_memory_limit(tmp_path: Path) -> None:
    rows = torch.zeros(16 << 20, 1)  # 64 MiB per rank, in two columns
    for rank in range(2):
        shard(tmp_path / "shards", rank, {"w": rows}, {"w": [0, rank]})
    assert peak(tmp_path / "shards", tmp_path / "a", "8MiB") < 40
    dcp.save({str(i): torch.zeros(2 << 20) for i in range(16)}, checkpoint_id=tmp_path / "dcp")  # 8 MiB each
    assert peak(tmp_path / "dcp", tmp_path / "b", "16MiB") < 60


# --- devices, files ---


def test_default_device_does_not_matter(tmp_path: Path) -> None:
    columns = torch.arange(6.0).reshape(3, 2)
    path = saved(tmp_path / "in")
    for rank in range(2):
        shard(tmp_path / "shards", rank, {"w": columns[:, rank : rank + 1].contiguous()}, {"w": [0, rank]})
    try:
        torch.set_default_device("meta")
        consolidate(path, tmp_path / "a")
        consolidate(tmp_path / "shards", tmp_path / "b")
    finally:
        torch.set_default_device(None)
    assert load(tmp_path / "a", framework="pt")["a.w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert torch.equal(load(tmp_path / "b", framework="pt")["w"], columns)


@pytest.mark.parametrize("source", ["out/model.safetensors", "out/model.safetensors.index.json", "link", "out/link"])
def test_refuses_to_replace_its_source(tmp_path: Path, source: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    save_file({"a": torch.ones(3), "b": torch.ones(4)}, out / "model.safetensors")
    index = {"metadata": {"total_size": 28}, "weight_map": {"a": "model.safetensors", "b": "model.safetensors"}}
    (out / "model.safetensors.index.json").write_text(json.dumps(index))
    save_file({"a": torch.ones(1)}, tmp_path / "other.safetensors")
    (tmp_path / "link").symlink_to(out / "model.safetensors")
    (out / "link").symlink_to(tmp_path / "other.safetensors")
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    with pytest.raises(ValueError, match=r"path_in, '.*', is in path_out, '.*', whose files are replaced: give another folder"):
        consolidate(tmp_path / source, out, keys=["a"])
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before


def test_says_which_file_is_missing(tmp_path: Path) -> None:
    path = saved(tmp_path / "in")
    (path / "__0_0.distcp").unlink()
    with pytest.raises(FileNotFoundError, match=r"__0_0\.distcp"):
        consolidate(path, tmp_path / "out")
    assert os.listdir(tmp_path) == ["in"]
