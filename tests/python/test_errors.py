"""The full texts of errors, because programs compare them."""

from __future__ import annotations

import contextlib
import io
import pickle
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import framework

import safetensors.numpy as stn
from safetensors import SafetensorError, TensorSpec, Writer, _safe_open_handle, deserialize, load, safe_open, serialize, stream

BACKENDS = pytest.mark.parametrize("backend", ["mmap", "pread", "auto"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "t"
    stn.save_file({"a": np.arange(50, dtype=np.int32).reshape(10, 5)}, target)
    return target


def says(kind: type[BaseException], text: str) -> Any:
    return pytest.raises(kind, match=f"^{re.escape(text)}$")


def test_a_spec_that_was_never_filled_is_no_spec() -> None:
    with pytest.raises(TypeError):
        serialize({"a": TensorSpec.__new__(TensorSpec)})


def test_missing_files(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("missing")
    text = f"No such file or directory: {link} (the path is a symlink to nothing)"
    for open_it in (partial(safe_open, link, "np"), partial(stn.load_file, link), partial(load, link)):
        with says(FileNotFoundError, text):
            open_it()


def test_names_that_utf_8_lacks(path: Path) -> None:
    nothing = TensorSpec(dtype="uint8", shape=[0], data_ptr=0, data_len=0)
    with safe_open(path, "np") as f:
        assert "\ud800" not in f
        for call in (
            partial(serialize, {"\ud800": nothing}), partial(serialize, {}, {"\ud800": ""}), partial(serialize, {}, {"": "\ud800"}),
            partial(f.get_tensor, "\ud800"),
        ):  # fmt: skip
            with pytest.raises(UnicodeEncodeError):
                call()


def test_file_objects_must_be_open_files(tmp_path: Path) -> None:
    with pytest.raises((AttributeError, io.UnsupportedOperation)):
        _safe_open_handle(io.BytesIO(b""), "np")
    with open(tmp_path / "f", "wb") as f:
        pass
    with pytest.raises(ValueError, match="closed file"):
        _safe_open_handle(f, "np")


def test_nothing_that_holds_a_file_is_pickled_or_copied(path: Path) -> None:
    import copy

    with safe_open(path, "np") as f:
        for call in (copy.copy, pickle.dumps):
            # The stable ABI has the module's name in it.
            with pytest.raises(TypeError, match=r"^cannot pickle '(safetensors\._native\.)?safe_open' object$"):
                call(f)


# Errors that say what is wrong


@pytest.mark.parametrize("view", [memoryview(bytes(40))[::2], memoryview(bytes(40))[::-1]])
def test_buffers_that_are_not_contiguous(view: memoryview) -> None:
    text = "a contiguous buffer is required, this 'memoryview' is not: copy it with bytes(...)"
    for call in (
        lambda: deserialize(view),
        lambda: stn.load(view),
        lambda: stn.load(view, copy=False),
        lambda: serialize({"a": {"dtype": "uint8", "shape": [20], "data": view}}),  # type: ignore[dict-item]
    ):
        with says(BufferError, text):
            call()


def test_buffers_that_were_released() -> None:
    view = memoryview(bytes(40))
    view.release()
    with says(ValueError, "operation forbidden on released memoryview object"):
        stn.load(view)


def test_what_is_no_buffer() -> None:
    with says(TypeError, "a bytes-like object is required, not 'int'"):
        stn.load(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "wire"), [("float6_e2m3fn", "F6_E2M3"), ("float6_e3m2fn", "F6_E3M2"), ("float4_e2m1fn", "F4")])
def test_arrays_with_a_byte_for_each_small_float(name: str, wire: str, tmp_path: Path) -> None:
    import ml_dtypes

    array = np.zeros((2, 4), getattr(ml_dtypes, name))
    text = (
        f"Key `a` has dtype {name}, which takes a byte for each element, and the format packs {wire}:"
        " pack it into uint8 and write it with `safetensors.Writer`."
    )
    with says(SafetensorError, text):
        stn.save({"a": array})
    with says(SafetensorError, text):
        stn.save_file({"a": array}, tmp_path / "t")
    packed = np.zeros((2, 4 * (4 if wire == "F4" else 6) // 8), np.uint8)
    with Writer(tmp_path / "t", {"a": (wire, (2, 4))}) as writer:
        writer.write("a", packed)
    assert (load(tmp_path / "t", out={"a": packed})["a"] == 0).all()
    with says(
        ValueError, f"out['a'] has dtype {name}, which takes a byte for each element: {wire} is read into packed uint8"
    ):
        load(tmp_path / "t", out={"a": array})


@BACKENDS
@pytest.mark.parametrize("how", ["context", "default"])
def test_slices_where_meta_is_the_default_device(path: Path, backend: str, how: str) -> None:
    torch = framework("torch")
    with safe_open(path, "pt", backend=backend) as f:
        part, whole = f.get_slice("a"), f.get_tensor("a")
        text = (
            "a slice cannot be taken by an index tensor on the meta device, which has no values: make it with"
            ' device="cpu"'
        )
        before = torch.get_default_device()
        context = torch.device("meta") if how == "context" else contextlib.nullcontext()
        try:
            with context:
                if how == "default":
                    torch.set_default_device("meta")
                for index in (1, slice(1, 3), [1, 2], [True] * 10, None, ..., (slice(None), [0, 1]), (..., 2)):
                    got = part[index]
                    assert got.device.type == "cpu" and torch.equal(got, whole[index]), index
                for index in (torch.tensor([1, 2]), torch.tensor(1), torch.ones(10, dtype=torch.bool), (0, torch.tensor([1]))):
                    with says(SafetensorError, text):
                        part[index]
                assert torch.equal(part[torch.tensor([1, 2], device="cpu")], whole[1:3])
        finally:
            torch.set_default_device(before)


@pytest.mark.parametrize("device", ["cuda", "cuda:1", 0, "xpu"])
def test_devices_that_are_not_there(path: Path, device: Any) -> None:
    torch = framework("torch")
    import safetensors.torch as stt

    shown = f"cuda:{device}" if device == 0 else device if ":" in str(device) else f"{device}:0"
    if torch.accelerator.is_available():
        pytest.skip(f"this machine has a device for torch: {torch.accelerator.current_accelerator()}")
    with pytest.raises(Exception, match=".") as own:
        torch.empty(0).to(shown)
    text = f"device {device if device == 0 else shown} cannot be used: {own.value}"

    def streamed() -> Any:
        with stream(path, framework="pt", device=device) as tensors:
            return list(tensors)

    with safe_open(path, "pt", device) as f:
        assert f.keys() == ["a"]  # which needs no device
        for call in (
            lambda: f.get_tensor("a"),
            lambda: f.get_tensors(),
            lambda: f.get_slice("a")[1],
            lambda: stt.load_file(path, device),
            lambda: stt.load_file(path, device, backend="pread"),
            lambda: load(path, framework="pt", device=device),
            streamed,
        ):
            with says(SafetensorError, text) as caught:
                call()
            assert type(caught.value.__cause__) is type(own.value)
