"""consolidate: folders that ranks of torch have written, memory, arguments, hostile folders."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import math
import os
import pickle
import random
import re
import subprocess
import sys
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import framework

torch = framework("torch")

import ranks  # noqa: E402
import ranks_consolidate  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, ChunkStorageMetadata, Metadata, MetadataIndex  # noqa: E402

import safetensors.numpy as stn  # noqa: E402
from safetensors import Checkpoint, MissingTensorError, SafetensorError, load  # noqa: E402
from safetensors._boxes import Box, check_cover  # noqa: E402
from safetensors._consolidate import _cut, _StoredFiles  # noqa: E402
from safetensors._dcp_files import DcpFiles  # noqa: E402
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


# --- hostile folders ---


def change(folder: Path, edit: Any) -> None:
    path = folder / ".metadata"
    metadata = pickle.loads(path.read_bytes())
    edit(metadata)
    path.write_bytes(pickle.dumps(metadata))


def place(metadata: Metadata, **values: Any) -> None:
    for info in metadata.storage_data.values():
        vars(info).update(values)


def chunk(offsets: list[int], sizes: list[int]) -> Any:
    def edit(metadata: Any) -> None:
        metadata.state_dict_metadata["a.w"].chunks = [ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes))]

    return edit


def named(name: Any) -> Any:
    def edit(metadata: Any) -> None:
        metadata.state_dict_metadata = {name: metadata.state_dict_metadata["a.w"]}
        metadata.storage_data = {MetadataIndex(name, key.offset): value for key, value in metadata.storage_data.items()}

    return edit


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (chunk([1, 0], [2, 3]), "tensor 'a.w' of shape [2, 3] has a chunk at [1, 0] of shape [2, 3]"),
        (chunk([0], [2]), "tensor 'a.w' of shape [2, 3] has a chunk at [0] of shape [2]"),
        (chunk([0, 0], [1, 3]), "tensor 'a.w' is not complete: its chunks hold 3 elements, and its shape [2, 3] has 6"),
        (chunk([-1, 0], [2, 3]), "tensor 'a.w': offsets is -1, a number from 0 to"),
        (lambda m: m.storage_data.clear(), "names no file for tensor 'a.w' at [0, 0]"),
        (lambda m: place(m, relative_path="../other"), "names the file '../other', which is not in the folder"),
        (lambda m: place(m, relative_path="/etc/passwd"), "names the file '/etc/passwd', which is not in the folder"),
        (lambda m: place(m, offset=5), "cannot read 'a."),
        (lambda m: place(m, length=10), "cannot read 'a."),
        (lambda m: place(m, length=1 << 60, offset=1 << 20), "its chunk at [0] needs 12 bytes, and 0 are there"),
        (lambda m: place(m, relative_path=""), "names the file '', which is not in the folder"),
        (lambda m: place(m, relative_path=None), "the file of 'a.w' is NoneType instead of str"),
        (lambda m: place(m, relative_path=b"x"), "the file of 'a.w' is bytes instead of str"),
        (lambda m: place(m, relative_path="\ud800"), r"the file of 'a.w' is no valid UTF-8: \ud800"),
        (lambda m: place(m, relative_path="a\0b"), "which is not in the folder"),
        (lambda m: place(m, offset="a"), "offset of 'a.w' is str instead of int"),
        (lambda m: place(m, offset=-5), "offset of 'a.w' is -5, a number from 0 to"),
        (lambda m: place(m, offset=None), "offset of 'a.w' is NoneType instead of int"),
        (lambda m: place(m, length=1 << 63), "length of 'a.w' is 9223372036854775808"),
        (lambda m: place(m, length=True), "length of 'a.w' is bool instead of int"),
        (lambda m: place(m, transform_descriptors=["stream.zstd"]), "'a.w' is stored with transforms, such as a compression"),
        (lambda m: place(m, transform_descriptors=5), "'a.w' is stored with transforms"),
        (named(5), "the name of a chunk is int instead of str"),
        (named("\ud800"), r"the name of a chunk is no valid UTF-8: \ud800"),
        (lambda m: m.state_dict_metadata.update({5: BytesStorageMetadata()}), "the name of a value is int instead of str"),
        (lambda m: m.state_dict_metadata.update({5: m.state_dict_metadata["a.w"]}), "the name of a tensor is int instead of str"),
        (lambda m: m.state_dict_metadata.update({(1,): BytesStorageMetadata()}), "it has a dict with a key of type tuple"),
        (lambda m: m.state_dict_metadata.update({"x": "y"}), "it holds str instead of TensorStorageMetadata"),
        (lambda m: vars(m.state_dict_metadata["a.w"]).pop("chunks"), "chunks is NoneType instead of list"),
        (lambda m: setattr(m.state_dict_metadata["a.w"], "size", torch.Size([1] * 65)), "size is no torch.Size of at most 64 dimensions"),
        (lambda m: setattr(m.state_dict_metadata["a.w"].properties, "dtype", torch.float16), "it holds torch.float32 of shape [2, 3], and .metadata declares torch.float16 of shape [2, 3]"),
        (lambda m: setattr(m.state_dict_metadata["a.w"].properties, "dtype", torch.strided), "tensor 'a.w': it has no dtype"),
        (lambda m: setattr(m.state_dict_metadata["a.w"].properties, "dtype", torch.complex128), "tensor 'a.w': "),
        (lambda m: setattr(m.state_dict_metadata["a.w"], "size", 5), "in/.metadata is damaged: "),
        (lambda m: setattr(m, "storage_data", None), "is no metadata of torch"),
    ],
)
def test_refuses_false_metadata(tmp_path: Path, edit: Any, text: str) -> None:
    path = saved(tmp_path / "in")
    change(path, edit)
    with pytest.raises(SafetensorError) as raised:
        consolidate(path, tmp_path / "out")
    assert text in str(raised.value)
    assert os.listdir(tmp_path) == ["in"]


class Runs:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_runs_no_code_of_a_stranger(tmp_path: Path) -> None:
    path = saved(tmp_path / "in")
    victim = tmp_path / "victim"
    for value in (Runs(victim), os.system, torch.hub.load, np.zeros(2)):
        (path / ".metadata").write_bytes(pickle.dumps(value))
        with pytest.raises(SafetensorError, match=r"\.metadata is no metadata of torch: it holds [\w.]+, which torch does not write there"):
            consolidate(path, tmp_path / "out")
    for content in (b"", b"nothing", pickle.dumps([1]), pickle.dumps(bytearray(5)), pickle.dumps({1})):
        (path / ".metadata").write_bytes(content)
        with pytest.raises(SafetensorError, match=r"\.metadata is no metadata of torch: "):
            DcpFiles(path)
    assert not victim.exists()


def named_global(module: str, name: str) -> bytes:
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n"


def text(value: str) -> bytes:
    return b"X" + len(value.encode()).to_bytes(4, "little") + value.encode()


@pytest.mark.parametrize("module", ["pathlib", "torch", "torch.serialization", "collections", "torch.distributed.checkpoint.metadata"])
@pytest.mark.parametrize("made", [b"", b")R", b")\x81"])
@pytest.mark.parametrize("state", [b"N}%ss\x86", b"}%ssN\x86", b"}%ss", b"}%ss}%ss\x86"])
def test_patches_no_class(tmp_path: Path, module: str, made: bytes, state: bytes) -> None:
    """BUILD sets attributes of what is on the stack, also of a class: then every path is another one."""
    names = {"pathlib": "PurePath", "torch": "Size", "torch.serialization": "_get_layout", "collections": "OrderedDict", "torch.distributed.checkpoint.metadata": "Metadata"}
    target = getattr(importlib.import_module(module), names[module])
    path = saved(tmp_path / "in")
    before, body = dict(vars(target)), (path / ".metadata").read_bytes()
    pair = text("_str") + text("/etc/hostname")
    hostile = b"\x80\x04" + named_global(module, names[module]) + made + state.replace(b"%s", pair) + b"b0"
    (path / ".metadata").write_bytes(hostile + body[2:])
    with contextlib.suppress(SafetensorError):  # a record has a state: it is dropped, as nothing uses it
        consolidate(path, tmp_path / "out")
    assert dict(vars(target)) == before
    assert str(Path("harmless")) == "harmless"
    if (tmp_path / "out").exists():
        assert made and load(tmp_path / "out", framework="pt")["a.w"].tolist() == [[0, 1, 2], [3, 4, 5]]


LIMITED = """
import resource, sys
from safetensors._dcp_files import DcpFiles
from safetensors import SafetensorError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    DcpFiles(sys.argv[1])
except SafetensorError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04Nr" + (1 << 26).to_bytes(4, "little") + b".",
        b"\x80\x04Np%d\n." % (1 << 26),
        b"\x80\x05\x96" + (1 << 29).to_bytes(8, "little"),
        b"\x80\x04\x8d" + (1 << 40).to_bytes(8, "little"),
        b"\x80\x04\x95" + (1 << 40).to_bytes(8, "little"),
        b"\x80\x04B" + (1 << 31).to_bytes(4, "little"),
        b"\x80\x04" + b")\x85" + b"\x85" * 1_000_000 + b"}0.",
        b"\x80\x04}" + b")" + b"\x85" * 1_000_000 + b"Ns.",
    ],
)
def test_small_metadata_needs_little_memory(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".metadata").write_bytes(content)
    done = subprocess.run([sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    error, memory = done.stdout.splitlines()
    assert ".metadata is no metadata of torch: " in error
    assert int(memory) < 150 << 10


def test_refuses_large_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "in")
    monkeypatch.setattr("safetensors._dcp_files._MAX_METADATA", (path / ".metadata").stat().st_size)
    assert "a.w" in DcpFiles(path).shapes
    monkeypatch.setattr("safetensors._dcp_files._MAX_METADATA", 1000)
    with pytest.raises(SafetensorError, match="has more than 1000 bytes, the maximum"):
        DcpFiles(path)


@pytest.mark.parametrize("version", ["1.13.1", "2.5.1+cu124"])
def test_refuses_an_old_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    path = saved(tmp_path / "in")
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(SafetensorError, match=r"has files \*.distcp, and torch .* may run code that they hold \(CVE-2025-32434\): install torch 2.6"):
        consolidate(path, tmp_path / "out")


def replaced(folder: Path, value: Any) -> Path:
    """A folder whose only chunk is a value that torch.save has written."""
    dcp.save({"w": torch.arange(6.0).reshape(2, 3)}, checkpoint_id=folder)
    torch.save(value, folder / "__0_0.distcp")
    change(folder, lambda m: place(m, offset=0, length=(folder / "__0_0.distcp").stat().st_size))
    return folder


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.zeros(1).expand(2, 3), "it holds fewer elements than its shape has: its strides repeat them"),
        (torch.zeros(6), "it holds torch.float32 of shape [6], and .metadata declares torch.float32 of shape [2, 3]"),
        (torch.full((2, 3), 1e300, dtype=torch.float64), "it holds torch.float64 of shape [2, 3], and"),
        (torch.zeros(2, 3).to_sparse(), "it holds a tensor of layout torch.sparse_coo"),
        (torch.zeros(2, 3, device="meta"), "it holds a tensor of layout torch.strided on meta"),
        ([1, 2], "it holds list, no tensor"),
    ],
)
def test_refuses_false_chunks(tmp_path: Path, value: Any, text: str) -> None:
    path = replaced(tmp_path / "in", value)
    with pytest.raises(SafetensorError) as raised:
        consolidate(path, tmp_path / "out")
    assert text in str(raised.value)
    assert os.listdir(tmp_path) == ["in"]


def test_reads_chunks_of_columns_and_parameters(tmp_path: Path) -> None:
    values = (torch.arange(6.0).reshape(3, 2).t(), torch.nn.Parameter(torch.ones(2, 3)), torch.ones(9)[3:].reshape(2, 3))
    for number, value in enumerate(values):
        path = replaced(tmp_path / str(number), value)
        consolidate(path, tmp_path / "out")
        assert torch.equal(load(tmp_path / "out", framework="pt")["w"], value)


def test_reserves_no_memory_for_absent_bytes(tmp_path: Path) -> None:
    """A chunk declares 1 GiB, and its strides repeat one element."""
    path, count = tmp_path / "in", 1 << 28
    replaced(path, torch.zeros(1).expand(count))

    def edit(metadata: Any) -> None:
        metadata.state_dict_metadata["w"].size = torch.Size([count])
        metadata.state_dict_metadata["w"].chunks = [ChunkStorageMetadata(torch.Size([0]), torch.Size([count]))]
        info = next(iter(metadata.storage_data.values()))
        info.length = 1 << 60
        metadata.storage_data = {MetadataIndex("w", torch.Size([0])): info}

    change(path, edit)
    with pytest.raises(SafetensorError, match=r"its chunk at \[0\] needs 1073741824 bytes, and \d{3,4} are there"):
        consolidate(path, tmp_path / "out")


def test_refuses_compressed_chunks(tmp_path: Path) -> None:
    path = replaced(tmp_path / "in", torch.zeros(2, 3))
    file = path / "__0_0.distcp"
    with zipfile.ZipFile(file) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in held.items():
            archive.writestr(name, content)
    change(path, lambda m: place(m, length=file.stat().st_size))
    with pytest.raises(SafetensorError, match="it is compressed, which torch does not write"):
        consolidate(path, tmp_path / "out")


@pytest.mark.parametrize("file", ["__0_0.distcp", ".metadata"])
def test_reads_only_regular_files_of_the_folder(tmp_path: Path, file: str) -> None:
    path = saved(tmp_path / "in")
    (path / file).rename(path / "inside")
    (path / file).symlink_to("inside")
    consolidate(path, tmp_path / "out")
    (path / "inside").rename(tmp_path / "secret")
    (path / file).unlink()
    (path / file).symlink_to(tmp_path / "secret")
    with pytest.raises(SafetensorError, match=rf"{file} is a link to '.*secret', which is not in the folder"):
        consolidate(path, tmp_path / "out")
    (path / file).unlink()
    os.mkfifo(path / file)
    with pytest.raises(SafetensorError, match=rf"{file} is no regular file"):
        consolidate(path, tmp_path / "out")


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


def test_says_which_file_is_missing(tmp_path: Path) -> None:
    path = saved(tmp_path / "in")
    (path / "__0_0.distcp").unlink()
    with pytest.raises(FileNotFoundError, match=r"__0_0\.distcp"):
        consolidate(path, tmp_path / "out")
    assert os.listdir(tmp_path) == ["in"]
