"""Checkpoint is a mapping of the tensors of several files, and offers what safe_open offers. It can be closed, copied and pickled."""

from __future__ import annotations

import copy
import gc
import json
import os
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sharded
from conftest import FRAMEWORKS, file_bytes, framework, text_about
from sharded import same

import safetensors.numpy as stn
from safetensors import Checkpoint, SafetensorError, safe_open

WANT = sharded.tensors()
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return sharded.save(tmp_path / "model", WANT, step="7")


@FRAMEWORKS
def test_checkpoint_is_mapping_of_all_files(folder: Path, kind: str) -> None:
    checkpoint = Checkpoint(folder, kind)
    assert isinstance(checkpoint, Mapping) and len(checkpoint) == len(WANT)
    assert list(checkpoint) == ["ids", "empty", "wte", "scale", "bias", "mask"]  # in file order
    assert checkpoint.files == [str(folder / FIRST), str(folder / SECOND)]
    for name, tensor in checkpoint.items():
        assert same(tensor, WANT[name]), name
    assert "wte" in checkpoint and "wtf" not in checkpoint and 3 not in checkpoint
    assert "\ud800" not in checkpoint
    assert repr(checkpoint) == f"Checkpoint({checkpoint.files!r}, 6 tensors)"


def test_equality_is_identity_and_reads_nothing(folder: Path) -> None:
    one, other = Checkpoint(folder), Checkpoint(folder)
    os.truncate(folder / FIRST, 10)  # a read would fail
    assert one == one and one != other and len({one, other}) == 2


def test_name_that_is_no_str_raises_type_error(folder: Path) -> None:
    for wrong in (3, None, b"wte"):
        with pytest.raises(TypeError, match="^argument 'name': '.*' object is not an instance of 'str'$"):
            Checkpoint(folder)[wrong]  # type: ignore[index]


def test_accepts_every_kind_of_path(folder: Path) -> None:
    one, two = folder / FIRST, folder / SECOND
    names = set(WANT)
    for paths in (
        folder, str(folder), os.fsencode(folder), folder / sharded.INDEX, [folder], (str(folder),),
        [one, str(two)], iter([one, two]), (p for p in (one, two)), folder.glob("*.safetensors"),
        str(folder / "model-*.safetensors"), {one: 1, two: 2},
    ):  # fmt: skip
        assert set(Checkpoint(paths)) == names
    assert set(Checkpoint(one)) == {"wte", "ids", "empty"}
    assert Checkpoint([two, one]).files == [str(two), str(one)]


def test_invalid_paths_are_refused(folder: Path) -> None:
    wanted = "expected str, bytes, os.PathLike or an iterable of them, not"
    for wrong, name in ((None, "NoneType"), (3, "int")):
        with pytest.raises(TypeError, match=f"^argument 'paths': {wanted} {name}$"):
            Checkpoint(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="^argument 'paths': expected str, bytes or os.PathLike object, not int$"):
        Checkpoint([folder, 3])  # type: ignore[list-item]
    with pytest.raises(SafetensorError, match="^no paths were given$"):
        Checkpoint([])
    with pytest.raises(ValueError, match="null byte"):
        Checkpoint("a\0b")


def test_system_error_names_path_that_failed(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match="No such file or directory: .*gone$") as caught:
        Checkpoint([folder, folder / "gone"])
    assert caught.value.errno == 2
    (folder / SECOND).unlink()
    with pytest.raises(FileNotFoundError, match=SECOND):
        Checkpoint(folder)


def test_error_of_invalid_file_names_file(folder: Path) -> None:
    (folder / SECOND).write_bytes(file_bytes('{"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}'))
    with pytest.raises(SafetensorError, match=text_about(folder / SECOND, "")) as caught:
        Checkpoint(folder)
    notes = [f"file: {folder / SECOND}"] if sys.version_info >= (3, 11) else []
    assert getattr(caught.value, "__notes__", []) == notes


@FRAMEWORKS
def test_loaded_tensors_share_no_memory(folder: Path, kind: str) -> None:
    checkpoint = Checkpoint(folder, kind)
    one, two = checkpoint["wte"], checkpoint["wte"]
    one[:] = 7
    part = checkpoint.get_slice("wte")
    del checkpoint
    gc.collect()
    for file in folder.iterdir():
        os.truncate(file, 0)
    assert same(two, WANT["wte"]) and one[3, 3] == 7
    with pytest.raises(SafetensorError):
        part[1:]


@pytest.mark.parametrize("kind", ["jax", "tf", "mlx", "paddle"])
def test_loads_tensors_of_other_frameworks(folder: Path, kind: str) -> None:
    framework({"tf": "tensorflow", "mlx": "mlx.core"}.get(kind, kind))
    checkpoint = Checkpoint(folder, kind)
    loaded = checkpoint.load(["wte", "bias"], slices={"wte": slice(2, 4)})
    assert (np.asarray(loaded["wte"]) == WANT["wte"][2:4]).all()
    assert (np.asarray(checkpoint["wte"]) == WANT["wte"]).all()
    streamed = {name: np.asarray(t) for name, t in checkpoint.stream(["wte", "bias"], dtype="F32")}
    assert (streamed["bias"] == WANT["bias"]).all() and streamed["bias"].dtype == np.float32


@pytest.mark.parametrize("index", [False, True])
def test_error_escapes_file_names(tmp_path: Path, index: bool) -> None:
    name = "\x1b[31m\u202egnp.safetensors"
    (tmp_path / name).symlink_to("nowhere")  # the folder lists it, but it cannot be opened
    if index:
        (tmp_path / sharded.INDEX).write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(SafetensorError if index else FileNotFoundError) as error:
        Checkpoint(tmp_path)
    assert r"\u{1b}[31m\u{202e}gnp.safetensors" in str(error.value)
    assert "\x1b" not in str(error.value) and "\u202e" not in str(error.value)
    assert not index or error.value.code == "invalid_index"  # type: ignore[attr-defined]


def test_error_shows_path_of_caller_unchanged(tmp_path: Path) -> None:
    path = str(tmp_path / "no\\thing\x1b")
    with pytest.raises(FileNotFoundError) as error:
        safe_open(path, "np")
    assert str(error.value) == "No such file or directory: " + path


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


@FRAMEWORKS
def test_copies_are_open_on_their_own(folder: Path, kind: Any) -> None:
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
