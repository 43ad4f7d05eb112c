"""Checkpoint offers what safe_open offers. It can be closed, copied, pickled, and used by workers of a DataLoader."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sharded
from conftest import framework
from sharded import same

import safetensors.numpy as stn
from safetensors import Checkpoint, SafetensorError, safe_open

WANT = sharded.tensors()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return sharded.save(tmp_path / "model", WANT, step="7")


# What safe_open offers


def test_one_file_looks_the_same_as_in_safe_open(tmp_path: Path) -> None:
    stn.save_file(WANT, tmp_path / "t", {"a": "b"}, durability="none")
    with safe_open(tmp_path / "t", "np") as f, Checkpoint(tmp_path / "t") as checkpoint:
        assert checkpoint.offset_keys() == f.offset_keys() and sorted(checkpoint.keys()) == f.keys()
        assert checkpoint.metadata() == f.metadata() == {"a": "b"}
        assert list(checkpoint.get_tensors()) == list(f.get_tensors())
        for name in f.keys():
            assert same(checkpoint.get_tensor(name), WANT[name])
            one, other = checkpoint.get_tensor_meta(name), f.get_tensor_meta(name)
            assert (one.dtype, one.shape, one.data_offsets) == (other.dtype, other.shape, other.data_offsets)
            assert repr(checkpoint.get_slice(name)) == repr(f.get_slice(name))


def test_every_public_method_of_safe_open_is_there() -> None:
    public = {name for name in dir(safe_open) if not name.startswith("_")}
    assert public - set(dir(Checkpoint)) == {"prefetch"}  # Checkpoint has stream


def test_metadata_are_those_of_the_first_file(folder: Path, tmp_path: Path) -> None:
    assert Checkpoint(folder).metadata() == {"format": "pt", "step": "7"}
    stn.save_file({"x": np.zeros(1)}, tmp_path / "x", durability="none")
    assert Checkpoint([tmp_path / "x", folder]).metadata() is None


def test_dtypes_and_shapes_need_no_bytes(folder: Path) -> None:
    checkpoint = Checkpoint(folder)
    for file in folder.glob("*.safetensors"):
        os.truncate(file, 500)  # within the header: a read would fail
    assert {n: (checkpoint.get_tensor_meta(n).dtype, checkpoint.get_tensor_meta(n).shape) for n in checkpoint} == {
        "wte": ("F32", [10, 8]), "bias": ("F16", [8]), "ids": ("I64", [6]), "scale": ("F64", []), "empty": ("F32", [0, 3]), "mask": ("BOOL", [2, 2]),
    }  # fmt: skip


def test_closed_checkpoint_refuses_calls_and_keeps_tensors(folder: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else None
    with Checkpoint(folder) as checkpoint:
        tensor, part = checkpoint["wte"], checkpoint.get_slice("wte")
        items = checkpoint.stream()
    checkpoint.close()
    for call in (
        lambda: checkpoint["wte"], lambda: len(checkpoint), lambda: list(checkpoint), lambda: "wte" in checkpoint, lambda: checkpoint.files,
        checkpoint.load, checkpoint.stream, checkpoint.metadata, checkpoint.offset_keys, lambda: pickle.dumps(checkpoint), lambda: copy.copy(checkpoint),
    ):  # fmt: skip
        with pytest.raises(SafetensorError, match="^the checkpoint is closed$"):
            call()
    assert same(tensor, WANT["wte"]) and same(part[1:], WANT["wte"][1:]) and len(list(items)) == len(WANT)
    del part, items
    assert before is None or len(os.listdir("/proc/self/fd")) == before


# Copies


def copies(checkpoint: Checkpoint) -> list[Checkpoint]:
    pickled = [pickle.loads(pickle.dumps(checkpoint, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    return [*pickled, copy.copy(checkpoint), copy.deepcopy(checkpoint)]


class Named(Checkpoint):
    """A subclass, which copies must keep."""


@pytest.mark.parametrize("kind", ["np", "pt"])
def test_copies_are_open_on_their_own(folder: Path, kind: Any) -> None:
    if kind == "pt":
        framework("torch")
    original = Named(folder, kind, backend="mmap")
    for again in copies(original):
        assert type(again) is Named and again is not original and again != original
        assert list(again) == list(original) and again.files == original.files
        assert repr(again.get_slice("wte")) == repr(original.get_slice("wte"))
        assert type(again["wte"]) is type(original["wte"]) and same(again["wte"], WANT["wte"])
        again.close()
    assert same(original["wte"], WANT["wte"])


@pytest.mark.parametrize("where", ["plain", "[a]*"])
def test_copies_find_relative_paths_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    folder = sharded.save(tmp_path / where / "model", WANT)
    monkeypatch.chdir(tmp_path / where)
    given: list[Any] = ["model", Path("model"), b"model", "model/*.safetensors", ["model/" + p.name for p in sorted(folder.glob("*.safetensors"))], iter(["model"])]
    opened = [Checkpoint(paths) for paths in given]
    pickled = [pickle.dumps(checkpoint) for checkpoint in opened]
    monkeypatch.chdir("/")
    for one, data in zip(opened, pickled, strict=True):
        again = pickle.loads(data)
        assert list(again) == list(one) and same(again["wte"], WANT["wte"])


def test_copy_of_a_removed_checkpoint_is_an_error(folder: Path) -> None:
    data = pickle.dumps(Checkpoint(folder))
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    with pytest.raises(FileNotFoundError):
        pickle.loads(data)


# A script, because workers that are spawned import it again.
WORKERS = """
import sys
import torch
from torch.utils.data import DataLoader, Dataset
from safetensors import Checkpoint

class Rows(Dataset):
    def __init__(self, path):
        self.checkpoint = Checkpoint(path, "pt")
        self.checkpoint["rows"]  # the parent has used it, too
    def __len__(self):
        return self.checkpoint.get_tensor_meta("rows").shape[0]
    def __getitem__(self, row):
        return self.checkpoint.get_slice("rows")[row]

if __name__ == "__main__":
    data = Rows(sys.argv[1])
    loader = DataLoader(data, batch_size=4, num_workers=2, multiprocessing_context=sys.argv[2])
    for _ in range(2):
        print(torch.cat(list(loader)).sum().item(), len(data))
"""


@pytest.mark.parametrize("context", ["spawn", "fork", "forkserver"])
def test_workers_of_a_data_loader_read_it(tmp_path: Path, context: str) -> None:
    framework("torch")
    sharded.save(tmp_path / "model", {"rows": np.arange(60, dtype=np.float32).reshape(20, 3), "other": np.zeros(2)})
    (tmp_path / "script.py").write_text(WORKERS)
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "model"), context]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "1770.0 20\n" * 2), done.stderr
