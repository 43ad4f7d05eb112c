"""The full texts of errors, because programs compare them."""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS, framework, raises

import safetensors.numpy as stn
from safetensors import SafetensorError, TensorSpec, _safe_open_handle, deserialize, load, safe_open, serialize, stream


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "t"
    stn.save_file({"a": np.arange(50, dtype=np.int32).reshape(10, 5)}, target)
    return target


def test_a_spec_that_was_never_filled_is_no_spec() -> None:
    with pytest.raises(TypeError):
        serialize({"a": TensorSpec.__new__(TensorSpec)})


def test_missing_files(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("missing")
    text = f"No such file or directory: {link} (the path is a symlink to nothing)"
    for open_it in (partial(safe_open, link, "np"), partial(stn.load_file, link), partial(load, link)):
        with raises(FileNotFoundError, text):
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
        with raises(BufferError, text):
            call()


def test_what_is_no_buffer() -> None:
    view = memoryview(bytes(40))
    view.release()
    with raises(ValueError, "operation forbidden on released memoryview object"):
        stn.load(view)
    with raises(TypeError, "a bytes-like object is required, not 'int'"):
        stn.load(5)  # type: ignore[arg-type]


@BACKENDS
def test_slices_where_meta_is_the_default_device(path: Path, backend: str) -> None:
    torch = framework("torch")
    with safe_open(path, "pt", backend=backend) as f:
        part, whole = f.get_slice("a"), f.get_tensor("a")
        text = "a slice cannot be taken by an index tensor on the meta device, which has no values: make it with device=\"cpu\""
        with torch.device("meta"):  # set_default_device() enters the same context
            for index in (1, slice(1, 3), [1, 2], [True] * 10, None, ..., (slice(None), [0, 1]), (..., 2)):
                got = part[index]
                assert got.device.type == "cpu" and torch.equal(got, whole[index]), index
            for index in (torch.tensor([1, 2]), torch.tensor(1), torch.ones(10, dtype=torch.bool), (0, torch.tensor([1]))):
                with raises(SafetensorError, text):
                    part[index]
            assert torch.equal(part[torch.tensor([1, 2], device="cpu")], whole[1:3])


@pytest.mark.parametrize("device", ["cuda", "cuda:1", 0, "xpu"])
def test_devices_that_are_not_there(path: Path, device: Any) -> None:
    torch, stt = framework("torch"), framework("safetensors.torch")
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
            with raises(SafetensorError, text) as caught:
                call()
            assert type(caught.value.__cause__) is type(own.value)


# Files of other kinds, made by their own tools. tests/format/file_kind_test.cpp has all kinds.

OLD = "a pickle, such as an old PyTorch checkpoint"


KINDS: dict[str, tuple[Callable[[io.BytesIO], Any], str]] = {
    "npz": (lambda out: np.savez(out, a=np.ones(3)), "a NumPy archive (.npz)"),
    **{f"pickle {n}": (lambda out, n=n: pickle.dump({"a": 1.5}, out, n), OLD) for n in (0, 2, 3, 4, 5)},
    "torch": (lambda out: framework("torch").save({}, out), "a PyTorch checkpoint"),
    "old torch": (lambda out: framework("torch").save({}, out, _use_new_zipfile_serialization=False), OLD),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds_are_named(name: str, tmp_path: Path) -> None:
    """The kind comes before the phrase that the reference prints."""
    write, kind = KINDS[name]
    write(out := io.BytesIO())
    (tmp_path / "t").write_bytes(out.getvalue())
    phrases = "header too small|header too large|invalid header length|invalid (UTF-8|JSON) in header"
    wanted = f"the file is {re.escape(kind)}, not a safetensors file( \\(.*\\))?: ({phrases})($|\n)"
    for prefix, open_it in (
        ("Error while deserializing header: ", lambda: safe_open(tmp_path / "t", "np")),
        ("Error while deserializing header: ", lambda: stn.load_file(tmp_path / "t")),
        ("Error while deserializing: ", lambda: deserialize(out.getvalue())),
    ):
        with pytest.raises(SafetensorError, match=f"^{prefix}{wanted}"):
            open_it()
