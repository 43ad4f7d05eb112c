"""The texts of errors, whole: programs compare them."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import installed

import safetensors.numpy as stn
from safetensors import (
    SafetensorError,
    TensorSpec,
    _safe_open_handle,
    deserialize,
    safe_open,
    serialize,
)

BACKENDS = pytest.mark.parametrize("backend", ["mmap", "pread", "auto"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "t"
    stn.save_file({"a": np.arange(50, dtype=np.int32).reshape(10, 5)}, target)
    return target


def says(kind: type[BaseException], text: str) -> Any:
    return pytest.raises(kind, match=f"^{re.escape(text)}$")


def test_dtypes() -> None:
    with pytest.raises(
        SafetensorError, match='^Unknown dtype "F32". Supported dtypes: bool, int8, '
    ):
        TensorSpec(dtype="F32", shape=[1], data_ptr=0, data_len=0)
    with pytest.raises(OverflowError, match="^can't convert negative int to unsigned$"):
        TensorSpec(dtype="uint8", shape=[2, -1], data_ptr=0, data_len=0)


def test_a_spec_that_was_never_filled_is_no_spec() -> None:
    with pytest.raises(TypeError):
        serialize({"a": TensorSpec.__new__(TensorSpec)})


def test_prefixes_say_what_was_being_done(tmp_path: Path) -> None:
    with pytest.raises(SafetensorError, match="^Error while serializing: "):
        serialize({"a": TensorSpec(dtype="uint8", shape=[2], data_ptr=1, data_len=1)})
    with pytest.raises(SafetensorError, match="^Error while deserializing: header too small"):
        deserialize(b"\x01")
    (tmp_path / "short").write_bytes(b"\x01")
    with pytest.raises(
        SafetensorError, match="^Error while deserializing header: header too small"
    ):
        safe_open(tmp_path / "short", "np")


def test_missing_files(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with says(FileNotFoundError, f"No such file or directory: {missing}") as caught:
        safe_open(missing, "np")
    assert caught.value.errno == 2


@BACKENDS
@pytest.mark.parametrize(
    ("index", "text"),
    [
        ((0, -6), "Invalid index -6 for dimension 1 of size 5"),
        ((-11,), "Invalid index -11 for dimension 0 of size 10"),
        (
            (slice(2, None), 20),
            "Error during slicing [2:, 20] with shape [10, 5]: index 20 out of bounds for tensor"
            " dimension #1 of size 5",
        ),
        (
            slice(None, 20),
            "Error during slicing [:20] with shape [10, 5]: index 19 out of bounds for tensor"
            " dimension #0 of size 10",
        ),
        (
            (30, 20),  # dimensions are checked last to first
            "Error during slicing [30, 20] with shape [10, 5]: index 20 out of bounds for tensor"
            " dimension #1 of size 5",
        ),
        (
            slice(12, 20),  # the start, if it is beyond
            "Error during slicing [12:20] with shape [10, 5]: index 12 out of bounds for tensor"
            " dimension #0 of size 10",
        ),
        ([1], "Non empty lists are not implemented"),
    ],
)
def test_slices(path: Path, backend: str, index: Any, text: str) -> None:
    with safe_open(path, "np", backend=backend) as f, says(SafetensorError, text):
        f.get_slice("a")[index]


def test_a_name_that_utf_8_lacks_is_in_no_file(path: Path) -> None:
    with safe_open(path, "np") as f:
        assert "\ud800" not in f


@BACKENDS
def test_the_start_of_nothing_is_no_error(path: Path, backend: str) -> None:
    with safe_open(path, "np", backend=backend) as f:
        assert f.get_slice("a")[10:].shape == (0, 5)
        assert f.get_slice("a")[-30:2].shape == (2, 5)


def test_names_that_utf_8_lacks(path: Path) -> None:
    nothing = TensorSpec(dtype="uint8", shape=[0], data_ptr=0, data_len=0)
    with safe_open(path, "np") as f:
        for call in (
            lambda: serialize({"\ud800": nothing}),
            lambda: serialize({}, {"\ud800": ""}),
            lambda: serialize({}, {"": "\ud800"}),
            lambda: f.get_tensor("\ud800"),
        ):
            with pytest.raises(UnicodeEncodeError):
                call()


def test_file_objects_must_be_open_files(tmp_path: Path) -> None:
    import io

    with pytest.raises((AttributeError, io.UnsupportedOperation)):
        _safe_open_handle(io.BytesIO(b""), "np")
    with open(tmp_path / "f", "wb") as f:
        pass
    with pytest.raises(ValueError, match="closed file"):
        _safe_open_handle(f, "np")


def test_errors_survive_pickling_with_their_attributes(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"\x02\0\0\0\0\0\0\0{]")
    with pytest.raises(SafetensorError) as caught:
        safe_open(tmp_path / "t", "np")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.code, again.offset) == (str(caught.value), "json_syntax", 9)


def test_nothing_that_holds_a_file_is_pickled_or_copied(path: Path) -> None:
    import copy

    with safe_open(path, "np") as f:
        for call in (copy.copy, pickle.dumps):
            # The stable ABI has the module's name in it.
            with pytest.raises(TypeError, match=r"^cannot pickle '(safetensors\._native\.)?safe_open' object$"):
                call(f)


@pytest.mark.parametrize("name", ["cuda:x", "cuda:-1", "cpu:1", "gpu", "", "CPU", " cpu"])
def test_devices(path: Path, name: str) -> None:
    if not installed("torch"):
        pytest.skip("torch is not here")
    with says(SafetensorError, f"device {name} is invalid"):
        safe_open(path, "pt", name)
