"""Files of other kinds, each made by its own tool: the error names the kind, and its phrase does not change."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import framework

from safetensors import SafetensorError, deserialize, safe_open
from safetensors.numpy import load_file, save

MODEL = save({"a": np.arange(1000, dtype=np.float32)})


def written(write: Callable[[io.BytesIO], Any]) -> bytes:
    out = io.BytesIO()
    write(out)
    return out.getvalue()


def zipped(out: io.BytesIO) -> None:
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.safetensors", MODEL)


def tarred(kind: int) -> Callable[[io.BytesIO], None]:
    def write(out: io.BytesIO) -> None:
        with tarfile.open(fileobj=out, mode="w", format=kind) as archive:
            info = tarfile.TarInfo("m")  # a short name is a plausible length of a header
            info.size = len(MODEL)
            archive.addfile(info, io.BytesIO(MODEL))

    return write


KINDS = {
    "gzip": (gzip.compress(MODEL), "a gzip file"),
    "gzip_without_time": (gzip.compress(MODEL, mtime=0), "a gzip file"),
    "bzip2": (bz2.compress(MODEL), "a bzip2 file"),
    "xz": (lzma.compress(MODEL), "an xz file"),
    "zip": (written(zipped), "a zip archive"),
    "empty_zip": (written(lambda out: zipfile.ZipFile(out, "w").close()), "a zip archive"),
    "ustar": (written(tarred(tarfile.USTAR_FORMAT)), "a tar archive"),
    "gnu_tar": (written(tarred(tarfile.GNU_FORMAT)), "a tar archive"),
    "pax_tar": (written(tarred(tarfile.PAX_FORMAT)), "a tar archive"),
    "npy": (written(lambda out: np.save(out, np.ones(3))), "a NumPy array"),
    "npz": (written(lambda out: np.savez(out, a=np.ones(3))), "a NumPy archive (.npz)"),
    "index": (json.dumps({"metadata": {"total_size": 8}, "weight_map": {"a": "b"}}, indent=2).encode(), "a JSON index of several files"),
    "config": (json.dumps({"hidden_size": 768}).encode(), "a JSON document"),
}
OBJECTS = [None, {"a": [1.5, "b"], (1, 2): {3}}, list(range(1000)), b"x" * 100, np.ones((3, 4), np.float32), "x" * 300, 2**70, 0.5, Path("x"), (1, 2, 3)]


def refusal(open_it: Callable[[], Any]) -> SafetensorError:
    with pytest.raises(SafetensorError) as caught:
        open_it()
    return caught.value


def assert_named(path: Path, content: bytes, kind: str) -> None:
    """Every way of opening says the kind, before the phrase that the reference prints."""
    path.write_bytes(content)
    phrases = "header too small|header too large|invalid header length|invalid (UTF-8|JSON) in header"
    wanted = f"the file is {re.escape(kind)}, not a safetensors file( \\(.*\\))?: ({phrases})$"
    for prefix, open_it in (
        ("Error while deserializing header: ", lambda: safe_open(path, "np")),
        ("Error while deserializing header: ", lambda: load_file(path)),
        ("Error while deserializing: ", lambda: deserialize(content)),
    ):
        assert re.match(prefix + wanted, str(refusal(open_it)))


@pytest.mark.parametrize("name", KINDS)
def test_kinds_are_named(name: str, tmp_path: Path) -> None:
    assert_named(tmp_path / name, *KINDS[name])


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_are_named(protocol: int, tmp_path: Path) -> None:
    """Protocols 0 and 1 have no signature. A dict of protocol 0 begins with `(dp0` and a line feed."""
    for value in OBJECTS:
        content = pickle.dumps(value, protocol)
        if protocol >= 2:
            assert_named(tmp_path / "p", content, "a pickle, such as an old PyTorch checkpoint")
        else:
            named = "pickle" in str(refusal(lambda content=content: deserialize(content)))
            assert named == (type(value) is dict and protocol == 0)


def test_checkpoints_of_torch_are_named(tmp_path: Path) -> None:
    torch = framework("torch")
    tensors = {"a": torch.ones(3)}
    new = written(lambda out: torch.save(tensors, out))
    assert_named(tmp_path / "new", new, "a PyTorch checkpoint")
    old = written(lambda out: torch.save(tensors, out, _use_new_zipfile_serialization=False))
    assert_named(tmp_path / "old", old, "a pickle, such as an old PyTorch checkpoint")


def test_hdf5_files_are_named(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="h5py, which writes HDF5 files, is only in the environment numpy")
    with h5py.File(tmp_path / "t.h5", "w") as file:
        file["a"] = np.ones(3)
    assert_named(tmp_path / "again", (tmp_path / "t.h5").read_bytes(), "an HDF5 file")


def test_damaged_models_keep_their_details(tmp_path: Path) -> None:
    for cut in (4, 9, 40):
        error = str(refusal(lambda: deserialize(MODEL[:cut])))
        assert "the file is" not in error
    broken = MODEL[:20] + b"\xff" + MODEL[21:]
    assert "0xff" in str(refusal(lambda: deserialize(broken)))
