"""Models of several files: their layout is that of huggingface_hub, and they are saved and read back."""

from __future__ import annotations

import copy
import gc
import json
import os
import pickle
import weakref
from collections import UserDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import elsewhere, framework
from hypothesis import given, settings
from hypothesis import strategies as st

import safetensors
from safetensors import Checkpoint, CheckpointLayout, CheckpointWriter, SafetensorError, load, save

TENSORS = {name: np.full((2, 3), i, np.float32) for i, name in enumerate("abcde")}
NAMES = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]


def same(tensors: dict[str, Any], path: Path, expected: dict[str, Any] = TENSORS) -> bool:
    found = load(path)
    return found.keys() == expected.keys() and all((found[name] == expected[name]).all() for name in expected)


sizes = st.integers(0, 12)
def compare(layout: CheckpointLayout, expected: Any) -> None:
    assert {file: sorted(names) for file, names in layout.files.items()} == {
        file: sorted(names) for file, names in expected.filename_to_tensors.items()
    }
    assert list(layout.files) == list(expected.filename_to_tensors)
    assert layout.total_size == expected.metadata["total_size"]
    text = layout._native.index_text()
    if not expected.is_sharded:
        assert text == "" and layout.index is None
        return
    index = {"metadata": expected.metadata, "weight_map": expected.tensor_to_filename}
    assert text == json.dumps(index, indent=2)
    assert layout.index == index


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_torch_layout_equals_that_of_huggingface_hub(data: st.DataObject) -> None:
    torch = framework("torch")
    storages = [torch.zeros(data.draw(sizes), dtype=torch.uint8) for _ in range(4)]
    model = {}
    for i in range(data.draw(st.integers(1, 10))):
        storage = storages[data.draw(st.integers(0, 3))] if data.draw(st.booleans()) else None
        if storage is None:
            model[str(i)] = torch.zeros(data.draw(sizes), dtype=torch.uint8)
        else:
            model[str(i)] = storage[: data.draw(st.integers(0, len(storage)))]
    limit = data.draw(st.integers(1, 30))
    hub = framework("huggingface_hub")
    expected = hub.split_torch_state_dict_into_shards(model, max_shard_size=limit)
    compare(CheckpointLayout(model, max_shard_size=limit), expected)


def test_default_size_is_that_of_huggingface_hub() -> None:
    big = {str(i): ("U8", (10**9,)) for i in range(5)}
    assert len(CheckpointLayout(big).files) == 1
    assert len(CheckpointLayout({**big, "one": ("U8", (1,))}).files) == 2


def test_layout_tells_files() -> None:
    layout = CheckpointLayout(TENSORS, max_shard_size="48B", index_metadata={"x": [1, {"y": None}]})
    assert layout.files == {NAMES[0]: ["a", "b"], NAMES[1]: ["c", "d"], NAMES[2]: ["e"]}
    assert len(layout) == 5
    assert layout.index_name == "model.safetensors.index.json"
    assert layout.index is not None
    assert layout.index["metadata"] == {"total_size": 120, "x": [1, {"y": None}]}
    assert repr(layout) == "<CheckpointLayout: 5 tensors in 3 files>"


class OwnLayout(CheckpointLayout):
    pass


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
@pytest.mark.parametrize("kind", [CheckpointLayout, OwnLayout])
def test_layout_can_be_copied_and_pickled(tmp_path: Path, copied: Any, kind: Any) -> None:
    shapes: dict[str, Any] = {"\u00e9": ("F32", (2, 3)), "f4": ("F4", (2, 6)), "f6": ("F6_E2M3", (4,)), "": ("U8", ())}
    layout = kind(shapes, max_shard_size="6B", stem="s", metadata={"k": "v"}, index_metadata={"x": [1.5]})
    made = copied(layout)
    assert type(made) is kind and made is not layout
    assert (made.files, made.index, made.total_size) == (layout.files, layout.index, layout.total_size)
    assert len(made.files) == 3 and made._native.index_text() == layout._native.index_text()
    data = {"\u00e9": bytes(24), "f4": bytes(6), "f6": bytes(3), "": b"1"}
    for name, each in (("first", layout), ("second", made)):
        with CheckpointWriter(tmp_path / name, each) as writer:
            for tensor, values in data.items():
                writer.write(tensor, values)
    for file in os.listdir(tmp_path / "first"):
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()


def test_copied_layout_keeps_shared_storages() -> None:
    torch = framework("torch")
    whole = torch.zeros(8)
    layout = CheckpointLayout({"a": whole, "b": whole[:4], "c": torch.zeros(8)}, max_shard_size=32)
    made = pickle.loads(pickle.dumps(layout))
    assert made.files == layout.files and made.total_size == layout.total_size == 64


@pytest.mark.parametrize("folder_exists", [False, True])
def test_save_writes_folder(tmp_path: Path, folder_exists: bool) -> None:
    folder = tmp_path / "model"
    if folder_exists:
        folder.mkdir()
    safetensors.save(TENSORS, folder, max_shard_size=48, metadata={"format": "np"})
    assert sorted(os.listdir(folder)) == [*NAMES, "model.safetensors.index.json"]
    assert sorted(os.listdir(tmp_path)) == ["model"]
    assert same(TENSORS, folder)
    model = Checkpoint(folder)
    assert model.metadata() == {"format": "np"}
    assert model.index_metadata == {"total_size": 120} and Checkpoint(folder / NAMES[0]).index_metadata is None


def test_older_model_is_removed_on_request(tmp_path: Path) -> None:
    safetensors.save(TENSORS, tmp_path / "m", max_shard_size=48)
    safetensors.save({"a": TENSORS["b"]}, tmp_path / "m", remove_old_files=False)
    assert same({}, tmp_path / "m" / "model.safetensors", {"a": TENSORS["b"]})
    assert len(os.listdir(tmp_path / "m")) == 4
    safetensors.save(TENSORS, tmp_path / "m", max_shard_size=72, remove_old_files=False)
    assert set(NAMES) < set(os.listdir(tmp_path / "m"))
    assert "model.safetensors" not in os.listdir(tmp_path / "m")  # it would count before the index
    safetensors.save(TENSORS, tmp_path / "m", max_shard_size=72)
    files = [os.path.basename(file) for file in Checkpoint(tmp_path / "m").files]
    assert sorted(os.listdir(tmp_path / "m")) == [*files, "model.safetensors.index.json"]


@pytest.mark.parametrize("name", ["numpy", "torch", "jax.numpy", "tensorflow", "mlx.core", "paddle"])
def test_save_takes_tensors_of_framework(tmp_path: Path, name: str) -> None:
    makers = {"numpy": "array", "torch": "from_numpy", "jax.numpy": "array", "tensorflow": "constant", "mlx.core": "array", "paddle": "to_tensor"}
    make = getattr(framework(name), makers[name])
    tensors = {key: make(value) for key, value in TENSORS.items()}
    save(tensors, tmp_path / "one.safetensors", metadata={"a": "b"})
    assert same(TENSORS, tmp_path / "one.safetensors")
    save(tensors, tmp_path / "folder", max_shard_size="24B", metadata={"a": "b"})
    assert same(TENSORS, tmp_path / "folder")
    assert len(Checkpoint(tmp_path / "folder").files) == 5
    assert Checkpoint(tmp_path / "folder").metadata() == {"a": "b"}


def test_new_folder_refuses_one_that_exists(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    save(TENSORS, folder, max_shard_size=1)
    with pytest.raises(SafetensorError, match="exists") as caught:
        save(TENSORS, folder, new_folder=True)
    assert caught.value.code == "replace_failed"  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["model.pt", "model.BIN", "model.gguf", "model.npz"])
def test_save_refuses_folders_that_look_like_files(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"would be a folder: end the path of a file in '\.safetensors'"):
        save(TENSORS, tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / name).mkdir()
    save(TENSORS, tmp_path / name)
    assert same(TENSORS, tmp_path / name)


def test_save_refuses_size_for_one_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is one file: give the path of a folder"):
        save(TENSORS, tmp_path / "one.safetensors", max_shard_size="1GB")
    with pytest.raises(ValueError, match="is one file: give the path of a folder, or no new_folder"):
        save(TENSORS, tmp_path / "one.safetensors", new_folder=True)
    with pytest.raises(ValueError, match="max_shard_size 'much' is invalid"):
        save(TENSORS, tmp_path / "folder", max_shard_size="much")
    with pytest.raises(TypeError, match="give a dict of names"):
        save([1], tmp_path / "folder")  # type: ignore[arg-type]
    for path in ("folder", "one.safetensors"):
        for nested in ({"a": {"b": TENSORS["b"]}}, {**TENSORS, "a": {"b": 1, "c": 2}}, UserDict(a={"b": 1})):
            with pytest.raises(TypeError, match=NESTED):
                save(nested, tmp_path / path)
    assert os.listdir(tmp_path) == []
    save({}, tmp_path / "empty")
    assert load(tmp_path / "empty") == {}


@pytest.mark.parametrize("path", ["one.safetensors", "folder"])
def test_save_reports_progress(tmp_path: Path, path: str) -> None:
    reports: list[tuple[int, int]] = []
    tensors = {name: np.zeros(3 << 20, np.uint8) for name in "abcde"}
    save(tensors, tmp_path / path, progress=lambda *report: reports.append(report))
    written = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    assert reports[-1] == (written, written)
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)

    def stop(done: int, total: int) -> None:
        raise RuntimeError("stop here")

    with pytest.raises(RuntimeError, match="stop here"):
        save({"z": tensors["a"]}, tmp_path / path, progress=stop)
    assert load(tmp_path / path).keys() == tensors.keys()
    assert sorted(os.listdir(tmp_path)) == [path]


def test_torch_model_is_saved_from_devices(tmp_path: Path) -> None:
    torch = framework("torch")
    tensors = {name: torch.from_numpy(array) for name, array in TENSORS.items()}
    safetensors.save(tensors, tmp_path / "cpu", max_shard_size=48, durability="none")
    safetensors.save({name: elsewhere(tensor) for name, tensor in tensors.items()}, tmp_path / "device", max_shard_size=48)
    for name in os.listdir(tmp_path / "cpu"):
        assert (tmp_path / "cpu" / name).read_bytes() == (tmp_path / "device" / name).read_bytes()
    assert safetensors.load(tmp_path / "cpu", framework="pt")["e"].equal(tensors["e"])
    with pytest.raises(RuntimeError, match="Some tensors share memory"):
        safetensors.save({"a": tensors["a"], "b": tensors["a"][1:]}, tmp_path / "shared")
    assert not (tmp_path / "shared").exists()


def test_writer_takes_pieces(tmp_path: Path) -> None:
    layout = CheckpointLayout(TENSORS, max_shard_size=48)
    with CheckpointWriter(tmp_path / "m", layout) as writer:
        assert repr(writer) == f"<CheckpointWriter {str(tmp_path / 'm')!r}: 5 tensors in 3 files>"
        for name in "edcb":
            writer.write(name, TENSORS[name])
        writer.write("a", TENSORS["a"][1:], start=1)
        assert not (tmp_path / "m").exists()
        writer.write("a", TENSORS["a"][:1], start=0)
    assert same(TENSORS, tmp_path / "m")
    with CheckpointWriter(tmp_path / "n", TENSORS, max_shard_size=24) as writer:
        for name in TENSORS:
            writer.copy(name, Checkpoint(tmp_path / "m"))
    assert same(TENSORS, tmp_path / "n") and len(Checkpoint(tmp_path / "n").files) == 5


def test_writer_refuses_mistakes(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="max_shard_size belongs to the layout"):
        CheckpointWriter(tmp_path / "m", CheckpointLayout(TENSORS), max_shard_size=1)
    with pytest.raises(SafetensorError, match="tensor `b`: bytes 0 to 24 of 24 were never written"):
        with CheckpointWriter(tmp_path / "m", TENSORS) as writer:
            writer.write("a", TENSORS["a"])
            with pytest.raises(KeyError, match="the writer has no tensor 'z'"):
                writer.write("z", TENSORS["a"])
    with pytest.raises(SafetensorError, match="the writer is closed"):
        writer.write("a", TENSORS["a"])
    with pytest.raises(SafetensorError, match="index_metadata must be a JSON object|not JSON"):
        safetensors._native._CheckpointLayout({}, {}, 1, "model", None, "[]")  # type: ignore
    assert os.listdir(tmp_path) == []


def test_writer_and_its_progress_function_are_collected(tmp_path: Path) -> None:
    class Owner:
        def __init__(self) -> None:
            self.writer = CheckpointWriter(tmp_path / "m", TENSORS, progress=self.report)

        def report(self, done: int, total: int) -> None: ...

    owner = Owner()
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None
    assert os.listdir(tmp_path) == []


def test_progress_function_cannot_use_writer(tmp_path: Path) -> None:
    def use(done: int, total: int) -> None:
        writer.write("a", TENSORS["a"])

    writer = CheckpointWriter(tmp_path / "m", {"a": TENSORS["a"]}, progress=use)
    with pytest.raises(SafetensorError, match="cannot be used by its progress function"):
        writer.write("a", TENSORS["a"])
    writer.close()


NESTED = r"^tensors\['a'\] is dict: give a flat dict of tensors, with names such as 'a.b'$"


def test_layout_refuses_bad_arguments(tmp_path: Path) -> None:
    for nested in ({"a": {"b": TENSORS["b"]}}, {"a": {"b": 1, "c": 2}}):
        with pytest.raises(TypeError, match=NESTED):
            CheckpointLayout(nested)
    with pytest.raises(ValueError, match="JSON"):
        CheckpointLayout(TENSORS, index_metadata={"a": float("nan")})
    with pytest.raises(TypeError, match="index_metadata is list: give a dict"):
        CheckpointLayout(TENSORS, index_metadata=[1])  # type: ignore[arg-type]
    torch = framework("torch")
    with pytest.raises(ValueError, match=r"tensors\['a'\] is sparse"):
        CheckpointLayout({"a": torch.zeros(2, 2).to_sparse()})
    hub = framework("huggingface_hub")
    meta = {"a": torch.zeros(4, device="meta")[:2], "b": torch.zeros(4)}
    expected = hub.split_torch_state_dict_into_shards(meta, max_shard_size=16)
    compare(CheckpointLayout(meta, max_shard_size=16), expected)


def test_other_readers_follow_generations(tmp_path: Path) -> None:
    """The second save takes other names of files, because those of the first are in use."""
    torch, hub = framework("torch"), framework("huggingface_hub")
    folder = tmp_path / "m"
    for value in (1.0, 2.0, 3.0):
        save({"weight": torch.full((4, 4), value), "bias": torch.full((4,), value)}, folder, max_shard_size=16)
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    names = sorted(index["weight_map"].values())
    assert names == [f"model-gen00003-0000{i}-of-00002.safetensors" for i in (1, 2)]
    assert sorted(os.listdir(folder)) == [*names, "model.safetensors.index.json"]
    model = torch.nn.Linear(4, 4)
    hub.load_torch_model(model, folder, strict=True)
    assert torch.equal(model.weight, torch.full((4, 4), 3.0)) and torch.equal(model.bias, torch.full((4,), 3.0))
    hub.save_torch_model(model, folder, max_shard_size=16)  # keeps the files of a generation, and does not name them
    assert torch.equal(Checkpoint(folder, "pt")["bias"], torch.full((4,), 3.0))
    assert set(names) < set(os.listdir(folder))
    save({"weight": torch.zeros(4, 4), "bias": torch.zeros(4)}, folder, max_shard_size=16)
    assert len(os.listdir(folder)) == 3
