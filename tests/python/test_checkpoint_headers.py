"""Checkpoint(path, headers=...) opens a checkpoint from the bytes of headers(), and opens its files on the first read."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sharded
from conftest import framework
from sharded import same

import safetensors.numpy as stn
from safetensors import Checkpoint, SafetensorError

WANT = sharded.tensors()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return sharded.save(tmp_path / "model", WANT, step="7")


def open_files(folder: Path) -> int:
    links = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:  # the descriptor of listdir itself
            continue
    return sum(link.startswith(str(folder)) for link in links)


@pytest.mark.parametrize("backend", ["auto", "pread", "mmap"])
@pytest.mark.parametrize("kind", ["np", "pt"])
def test_tensors_are_the_same(folder: Path, kind: str, backend: str) -> None:
    if kind == "pt":
        framework("torch")
    with Checkpoint(folder) as first:
        headers = first.headers()
        assert type(headers) is bytes and str(folder).encode() not in headers
        for path in (folder, str(folder / sharded.INDEX), [folder]):
            checkpoint = Checkpoint(path, kind, backend=backend, headers=headers)  # type: ignore[arg-type]
            assert list(checkpoint) == list(first) and checkpoint.files == first.files
            assert checkpoint.metadata() == first.metadata()
            assert checkpoint.index_metadata == first.index_metadata
            assert checkpoint.headers() == headers
            for name, array in checkpoint.load().items():
                assert same(array, WANT[name])
            assert same(checkpoint["wte"], WANT["wte"])
            assert same(checkpoint.get_slice("wte")[2:5], WANT["wte"][2:5])
            for name, array in checkpoint.stream(slices={"ids": np.s_[1:3]}):
                assert same(array, WANT[name][1:3] if name == "ids" else WANT[name])


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not list descriptors")
def test_files_are_opened_on_the_first_read(folder: Path) -> None:
    with Checkpoint(folder) as first:
        headers = first.headers()
    checkpoint = Checkpoint(folder, headers=headers)
    assert {name: checkpoint.get_tensor_meta(name).shape for name in WANT} == {
        name: list(array.shape) for name, array in WANT.items()
    }
    assert open_files(folder) == 0
    assert same(checkpoint["wte"], WANT["wte"])
    assert open_files(folder) == 1


def test_headers_need_no_files(folder: Path) -> None:
    headers = Checkpoint(folder).headers()
    for file in folder.iterdir():
        file.unlink()
    checkpoint = Checkpoint(folder, headers=headers)
    assert sorted(checkpoint) == sorted(WANT)
    with pytest.raises(FileNotFoundError, match="model-00001-of-00002.safetensors"):
        checkpoint["wte"]
    sharded.save(folder, WANT, step="7")
    assert same(checkpoint["wte"], WANT["wte"])


def test_another_folder_has_the_files(folder: Path, tmp_path: Path) -> None:
    headers = Checkpoint(folder).headers()
    folder.rename(tmp_path / "elsewhere")
    assert same(Checkpoint(tmp_path / "elsewhere", headers=headers)["ids"], WANT["ids"])
    with pytest.raises(FileNotFoundError):
        Checkpoint(folder, headers=headers)


def test_one_file_may_have_any_name(tmp_path: Path) -> None:
    stn.save_file(WANT, tmp_path / "a", {"k": "v"}, durability="none")
    headers = Checkpoint(tmp_path / "a").headers()
    (tmp_path / "a").rename(tmp_path / "b")
    checkpoint = Checkpoint(tmp_path / "b", headers=headers)
    assert checkpoint.metadata() == {"k": "v"} and same(checkpoint["wte"], WANT["wte"])


def test_changed_size_is_noticed(folder: Path) -> None:
    headers = Checkpoint(folder).headers()
    with open(folder / "model-00001-of-00002.safetensors", "ab") as file:
        file.write(b"x")
    checkpoint = Checkpoint(folder, headers=headers)
    for read in (lambda: checkpoint["wte"], checkpoint.load, lambda: list(checkpoint.stream())):
        with pytest.raises(SafetensorError, match="file has another size than its header says") as error:
            read()
        assert error.value.code == "file_changed"
    assert same(checkpoint["bias"], WANT["bias"])


def test_copies_keep_the_headers(folder: Path, tmp_path: Path) -> None:
    first = Checkpoint(folder, headers=Checkpoint(folder).headers())
    data = pickle.dumps(first)
    for file in folder.iterdir():
        file.unlink()
    for again in (pickle.loads(data), copy.copy(first), copy.deepcopy(first)):
        assert list(again) == list(first) and again.headers() == first.headers()
    sharded.save(folder, WANT, step="7")
    assert same(pickle.loads(data)["wte"], WANT["wte"])


def test_other_processes_open_it(folder: Path) -> None:
    code = (
        "import sys; from safetensors import Checkpoint\n"
        "c = Checkpoint(sys.argv[1], headers=sys.stdin.buffer.read()); print(c['ids'].sum(), len(c))"
    )
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, input=Checkpoint(folder).headers(), capture_output=True, timeout=60)
    assert done.stdout == b"15 6\n", done.stderr


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_taken(folder: Path, kind: type) -> None:
    headers = Checkpoint(folder).headers()
    assert same(Checkpoint(folder, headers=kind(headers))["ids"], WANT["ids"])


def test_invalid_headers_are_refused(folder: Path) -> None:
    headers = Checkpoint(folder).headers()
    for bad in (b"", headers[:-1], headers + b"\0", headers.replace(b'"F32"', b'"F99"'), headers.replace(b"model-", b"/odel-")):
        with pytest.raises(SafetensorError):
            Checkpoint(folder, headers=bad)
    with pytest.raises(TypeError, match="a bytes-like object is required, not 'str'"):
        Checkpoint(folder, headers="text")  # type: ignore[arg-type]
    with pytest.raises(SafetensorError, match="^with headers, paths must be one path$"):
        Checkpoint([folder, folder], headers=headers)


def test_closed_checkpoint_has_no_headers(folder: Path) -> None:
    checkpoint = Checkpoint(folder)
    checkpoint.close()
    with pytest.raises(SafetensorError, match="^the checkpoint is closed$"):
        checkpoint.headers()
