"""Saves on a file system that cannot rename, such as a mount of an object store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import object_store
import pytest
import slow_files
from command_line import command

import safetensors
import safetensors.numpy as stn
from safetensors import Checkpoint, SafetensorError

VARIABLE = "SAFETENSORS_IN_PLACE_IF_NO_RENAME"
OLD = {"w": np.arange(5, dtype=np.int64)}
NEW = {"w": np.arange(700_000, dtype=np.float32), "b": np.ones(3)}  # several writes


@pytest.fixture(params=[True, False], ids=["truncates", "truncates not"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    objects, mounted = slow_files.folders(tmp_path, "objects", "mounted")
    with object_store.mounted(objects, mounted, truncates=request.param):
        yield mounted


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def same(found: object, want: dict[str, np.ndarray]) -> bool:
    assert isinstance(found, dict)
    return found.keys() == want.keys() and all(np.array_equal(found[name], want[name]) for name in want)


def test_refused_without_the_variable(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    path = store / "t.safetensors"
    with pytest.raises(SafetensorError, match="cannot rename the new file over the old one .in_place_if_no_rename allows"):
        stn.save_file(NEW, path)
    assert names(store) == []
    for value in ("yes", "2"):
        monkeypatch.setenv(VARIABLE, value)
        with pytest.raises(SafetensorError, match=f'{VARIABLE} is "{value}", expected "0" or "1"'):
            stn.save_file(NEW, path)


def test_writes_new_files_and_over_old_ones(store: Path, allowed: None) -> None:
    path = store / "t.safetensors"
    for tensors in (OLD, NEW, OLD):
        stn.save_file(tensors, path, {"a": "b"})
        assert same(stn.load_file(path), tensors)
        assert names(store) == ["t.safetensors"]


def test_saves_a_file_over_itself(store: Path, allowed: None) -> None:
    path = store / "t.safetensors"
    stn.save_file(NEW, path)
    stn.save_file(stn.load_file(path), path, {"second": "time"})  # views of the file that is replaced
    assert same(stn.load_file(path), NEW)


def test_folder_of_shards(store: Path, allowed: None) -> None:
    folder = store / "model"
    folder.mkdir()
    for tensors in (NEW, OLD):
        safetensors.save(tensors, folder, max_shard_size="1MB")
        assert same(Checkpoint(folder).load(), tensors)
    assert not [name for name in names(folder) if "tmp" in name]


def test_command_writes_in_place(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stn.save_file(NEW, tmp_path / "source.safetensors")
    path = store / "t.safetensors"
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(AssertionError, match="cannot rename the new file over the old one"):
        command("merge", tmp_path / "source.safetensors", "-o", path)
    assert names(store) == []
    monkeypatch.setenv(VARIABLE, "1")
    command("merge", tmp_path / "source.safetensors", "-o", path)
    command("meta", "set", path, "a=b")
    assert same(stn.load_file(path), NEW) and Checkpoint(path).metadata() == {"a": "b"}
