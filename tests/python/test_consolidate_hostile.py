"""consolidate refuses hostile folders of torch.distributed.checkpoint. The bytes are in the tests."""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import framework

torch = framework("torch")

import torch.distributed.checkpoint as dcp  # noqa: E402
from test_consolidate import saved  # noqa: E402
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, ChunkStorageMetadata, Metadata, MetadataIndex  # noqa: E402

from safetensors import SafetensorError, load  # noqa: E402
from safetensors._dcp.files import DcpFiles  # noqa: E402
from safetensors.distributed import consolidate  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


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
        (lambda m: place(m, relative_path="\ud800"), r"the file of 'a.w' is no valid UTF-8: \xed\xa0\x80"),
        (lambda m: place(m, relative_path="a\0b"), "which is not in the folder"),
        (lambda m: place(m, offset="a"), "offset of 'a.w' is str instead of int"),
        (lambda m: place(m, offset=-5), "offset of 'a.w' is -5, a number from 0 to"),
        (lambda m: place(m, offset=None), "offset of 'a.w' is NoneType instead of int"),
        (lambda m: place(m, length=1 << 63), "length of 'a.w' is 9223372036854775808"),
        (lambda m: place(m, length=True), "length of 'a.w' is bool instead of int"),
        (lambda m: place(m, transform_descriptors=["stream.zstd"]), "'a.w' is stored with transforms, such as a compression"),
        (lambda m: place(m, transform_descriptors=5), "'a.w' is stored with transforms"),
        (named(5), "the name of a chunk is int instead of str"),
        (named("\ud800"), r"the name of a chunk is no valid UTF-8: \xed\xa0\x80"),
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
from safetensors._dcp.files import DcpFiles
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
    monkeypatch.setattr("safetensors._dcp.files._MAX_METADATA", (path / ".metadata").stat().st_size)
    assert "a.w" in DcpFiles(path).shapes
    monkeypatch.setattr("safetensors._dcp.files._MAX_METADATA", 1000)
    with pytest.raises(SafetensorError, match="has more than 1000 bytes, the maximum"):
        DcpFiles(path)


def replaced(folder: Path, value: Any) -> Path:
    """A folder whose only chunk is a value that torch.save has written."""
    dcp.save({"w": torch.arange(6.0).reshape(2, 3)}, checkpoint_id=folder)
    torch.save(value, folder / "__0_0.distcp")
    change(folder, lambda m: place(m, offset=0, length=(folder / "__0_0.distcp").stat().st_size))
    return folder


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.zeros(1).expand(2, 3), "its strides repeat or leave out elements, which torch does not write"),
        (torch.zeros(2, 6)[:, ::2], "its strides repeat or leave out elements, which torch does not write"),
        (torch.zeros(6), "it holds torch.float32 of shape [6], and .metadata declares torch.float32 of shape [2, 3]"),
        (torch.full((2, 3), 1e300, dtype=torch.float64), "it holds torch.float64 of shape [2, 3], and"),
        (torch.zeros(2, 3).to_sparse(), "it holds torch._utils._rebuild_sparse_tensor, expected a dense tensor on the CPU"),
        (torch.zeros(2, 3, device="meta"), "it holds torch._utils._rebuild_meta_tensor_no_storage, expected a dense tensor on the CPU"),
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
    with pytest.raises(SafetensorError, match="it is compressed or encrypted, which torch does not write"):
        consolidate(path, tmp_path / "out")


def test_reads_one_directory_only(tmp_path: Path) -> None:
    """zipfile looks for the directory before the end record, torch at the offset that the record has.

    torch finds compressed zeros there, 64 MiB of them in 65 KB.
    """
    path = replaced(tmp_path / "in", torch.zeros(1 << 24)[:6].reshape(2, 3))
    file = path / "__0_0.distcp"
    with zipfile.ZipFile(file) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    bombs, harmless = path / "bombs", path / "harmless"
    with zipfile.ZipFile(bombs, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in held.items():
            archive.writestr(name, content)
    with zipfile.ZipFile(harmless, "w") as archive:
        for name, content in held.items():
            archive.writestr(name, content[:24])
    first, second = bombs.read_bytes(), harmless.read_bytes()
    begin = int.from_bytes(first[-6:-2], "little")
    # The second archive, whose end record has the offset of the first directory.
    file.write_bytes(first[:-22] + second[:-6] + begin.to_bytes(4, "little") + b"\0\0")
    assert file.stat().st_size < 1 << 17
    change(path, lambda m: place(m, length=file.stat().st_size))
    with pytest.raises(SafetensorError, match=r"its directory has 7 entries in \d+ bytes at \d+, expected at most 65536 bytes that end at \d+"):
        consolidate(path, tmp_path / "out")
    assert os.listdir(tmp_path) == ["in"]


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
