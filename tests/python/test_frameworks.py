"""Tests that run with numpy, flax, tensorflow, mlx and paddle: error texts, devices, and memory layouts of arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_arrays import Module, array_of, module  # noqa: F401  (module is a fixture)

import safetensors.numpy
from safetensors import SafetensorError, safe_open

SPELLED = {"numpy": "numpy", "flax": "flax", "tensorflow": "tensorflow", "mlx": "mlx"}
BACKENDS = pytest.mark.parametrize("backend", ["mmap", "pread", "auto"])
UNSUPPORTED = "Unsupported slice index at position 0: expected slice, int, or ellipsis"
SLICING = "Error during slicing %s with shape [10, 5]: "
ERRORS: list[tuple[Any, str]] = [
    ((slice(2, None), 20), SLICING % "[2:, 20]" + "index 20 out of bounds for tensor dimension #1 of size 5"),
    (slice(None, 20), SLICING % "[:20]" + "index 19 out of bounds for tensor dimension #0 of size 10"),
    (slice(11, None), SLICING % "[11:]" + "index 11 out of bounds for tensor dimension #0 of size 10"),
    ((0, -6), "Invalid index -6 for dimension 1 of size 5"),
    ((0, 0, 0), SLICING % "[0, 0, 0]" + "more slicing indexes than dimensions in tensor"),
    ((..., ...), "Only one ellipsis (...) is allowed in slice index"),
    ([1], "Non empty lists are not implemented"),
    (None, UNSUPPORTED),
    ("x", UNSUPPORTED),
    (1.5, UNSUPPORTED),
]


@BACKENDS
@pytest.mark.parametrize(("index", "text"), ERRORS)
def test_slices_that_fail(module: Module, index: Any, text: str, backend: str, tmp_path: Path) -> None:  # noqa: F811
    safetensors.numpy.save_file({"a": array_of("float32", (10, 5))}, tmp_path / "t")
    with safe_open(tmp_path / "t", module.framework, backend=backend) as f:
        with pytest.raises(SafetensorError) as caught:
            f.get_slice("a")[index]
    assert str(caught.value) == text


@BACKENDS
def test_slices_at_the_edges(module: Module, backend: str, tmp_path: Path) -> None:  # noqa: F811
    array = array_of("float32", (10, 5))
    safetensors.numpy.save_file({"a": array}, tmp_path / "t")
    with safe_open(tmp_path / "t", module.framework, backend=backend) as f:
        part = f.get_slice("a")
        for index in (slice(10, None), slice(-99, 2), slice(3, 3), slice(8, 2), (slice(None), slice(None, None, -2)),
                      (-1, -5), ..., (..., slice(1, 2)), np.int64(3), []):  # fmt: skip
            got = module.to_numpy(part[index])
            assert got.shape == array[index].shape and (got == array[index]).all(), index


@pytest.mark.parametrize("device", ["cuda:0", "mps", "xpu:1"])
def test_only_paddle_has_devices(module: Module, device: str, tmp_path: Path) -> None:  # noqa: F811
    if module.name not in SPELLED:
        pytest.skip("Paddle takes devices")
    safetensors.numpy.save_file({"a": array_of("float32")}, tmp_path / "t")
    with pytest.raises(SafetensorError) as caught:
        safe_open(tmp_path / "t", module.framework, device=device)
    assert str(caught.value) == f"Device {device} is not supported for framework {SPELLED[module.name]}"
    with safe_open(tmp_path / "t", module.framework, device=None) as f:
        assert module.to_numpy(f.get_tensor("a")).shape == (3, 4)


@pytest.mark.parametrize("kind", ["transposed", "strided", "swapped"])
def test_arrays_of_any_layout_are_saved_packed(module: Module, kind: str) -> None:  # noqa: F811
    array = array_of("float32", (4, 6))
    if module.name == "numpy":
        made: Any = {"transposed": array.T, "strided": array[:, ::2], "swapped": array.astype(">f4")}[kind]
    else:
        tensor = module.from_numpy(array)
        if kind == "swapped":
            pytest.skip("only NumPy has byte orders")
        # A view of the framework. Its elements may have another order in memory.
        if kind == "strided":
            made = tensor[:, ::2]
        elif module.name == "tensorflow":
            made = module.module.tf.transpose(tensor)
        else:
            made = tensor.T
    expected = {"transposed": array.T, "strided": array[:, ::2], "swapped": array}[kind]
    again = safetensors.numpy.load(module.module.save({"a": made}))["a"]
    assert again.shape == expected.shape and (again == expected).all()


def test_what_was_loaded_does_not_follow_the_file(module: Module, tmp_path: Path) -> None:  # noqa: F811
    if module.name == "numpy":
        pytest.skip("NumPy's arrays are views of the map")
    array = array_of("float32", (512, 1024))
    path = tmp_path / "t"
    safetensors.numpy.save_file({"a": array}, path)
    loaded = module.module.load_file(path)["a"]
    with safe_open(path, module.framework) as f:
        one, part = f.get_tensor("a"), f.get_slice("a")[:]
    with open(path, "r+b") as file:
        file.seek(-array.nbytes, 2)
        file.write(b"\xff" * array.nbytes)
    for tensor in (loaded, one, part):
        assert (module.to_numpy(tensor) == array).all()


def test_errors_of_files(module: Module, tmp_path: Path) -> None:  # noqa: F811
    with pytest.raises(FileNotFoundError) as missing:
        module.module.load_file(tmp_path / "none")
    assert str(missing.value) == f"No such file or directory: {tmp_path / 'none'}"
    safetensors.numpy.save_file({"a": array_of("float32")}, tmp_path / "t")
    with pytest.raises(SafetensorError, match=r'^backend "x" is invalid \(expected one of: "mmap", "pread", "auto"'):
        module.module.load_file(tmp_path / "t", backend="x")
    with pytest.raises(SafetensorError, match="^Error while deserializing: header too small"):
        module.module.load(b"abc")
    for wrong in ("abc", None, 3):
        with pytest.raises(TypeError):
            module.module.load(wrong)
    with pytest.raises(TypeError):
        module.module.save({1: module.from_numpy(array_of("float32"))})
    with safe_open(tmp_path / "t", module.framework) as f:
        with pytest.raises(SafetensorError, match="^File does not contain tensor zz$"):
            f.get_tensor("zz")
    with pytest.raises(SafetensorError, match="^File is closed$"):
        f.get_tensor("a")
