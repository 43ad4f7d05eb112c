"""Saving over a symlink: the functions of the reference replace the link, and leave its target as it is."""

from __future__ import annotations

import functools
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import elsewhere, framework, installed
from test_interchange import ask

import safetensors.numpy as stn
from safetensors import TensorSpec, Writer, serialize_file

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)
Save = Callable[..., None]


def serialized(path: Path, **options: Any) -> None:
    spec = TensorSpec(dtype="float32", shape=[2, 3], data_ptr=ARRAY.ctypes.data, data_len=24)
    serialize_file({"a": spec}, path, **options)


def numpy_file(path: Path, **options: Any) -> None:
    stn.save_file({"a": ARRAY}, path, **options)


def torch_file(path: Path, place: Callable[[Any], Any] = lambda tensor: tensor, **options: Any) -> None:
    torch, stt = framework("torch"), framework("safetensors.torch")
    stt.save_file({"a": place(torch.from_numpy(ARRAY))}, path, **options)


SAVES: list[Save] = [serialized, numpy_file]
if installed("torch"):
    SAVES += [torch_file, functools.partial(torch_file, place=elsewhere)]
each_save = pytest.mark.parametrize("save", SAVES)


def check_saved(path: Path) -> None:
    assert stat.S_ISREG(path.lstat().st_mode)
    assert (stn.load_file(path)["a"] == ARRAY).all()


@each_save
def test_link_is_replaced_and_target_stays(save: Save, tmp_path: Path) -> None:
    blob = tmp_path / "blobs" / "blob"
    blob.parent.mkdir()
    blob.write_bytes(b"shared by others")
    blob.chmod(0o640)
    path = tmp_path / "model.safetensors"
    path.symlink_to("blobs/blob")
    for durability in ("full", "file", "none"):
        path.unlink()
        path.symlink_to("blobs/blob")
        save(path, durability=durability)
        check_saved(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        assert blob.read_bytes() == b"shared by others"
    assert sorted(os.listdir(tmp_path)) == ["blobs", "model.safetensors"]
    assert os.listdir(tmp_path / "blobs") == ["blob"]


def test_a_writer_follows_the_link(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.symlink_to("blob")
    with Writer(path, {"a": ARRAY}) as writer:
        writer.write("a", ARRAY)
    assert path.is_symlink()
    check_saved(tmp_path / "blob")


LINKS = {"to_file": "blob", "to_nothing": "nowhere/x", "to_itself": "to_itself", "to_folder": "folder"}
SAVE = """
import json, os, sys
import numpy as np, safetensors.numpy as st
os.chdir(sys.argv[1])
for name in json.loads(sys.argv[2]):
    st.save_file({"a": np.arange(6, dtype=np.float32).reshape(2, 3)}, name)
"""


def test_the_reference_does_the_same(reference: str, tmp_path: Path) -> None:
    seen = {}
    for who in ("ours", "theirs"):
        folder = tmp_path / who
        (folder / "folder").mkdir(parents=True)
        (folder / "blob").write_bytes(b"shared by others")
        for name, target in LINKS.items():
            (folder / name).symlink_to(target)
        if who == "theirs":
            ask(reference, SAVE, str(folder), json.dumps(list(LINKS)))
        else:
            for name in LINKS:
                numpy_file(folder / name)
        assert not any((folder / name).is_symlink() for name in LINKS), who
        assert os.listdir(folder / "folder") == [], who
        seen[who] = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert seen["ours"] == seen["theirs"]
