"""numpy, flax, tensorflow, mlx and paddle: the behaviour that all of them share."""

from __future__ import annotations

import importlib
import mmap
import os
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conftest import BACKENDS, framework, installed

import safetensors.numpy
from safetensors import SafetensorError, safe_open

EXTENDED = [
    "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz",
]  # fmt: skip
DTYPES = [
    "bool", "uint8", "int8", "int16", "uint16", "float16", "int32", "uint32", "float32", "float64", "int64", "uint64",
    "complex64", *EXTENDED,
]  # fmt: skip

# module: (what it needs, the name for safe_open, dtypes it lacks, dtypes it changes)
MODULES: dict[str, tuple[str, str, set[str], set[str]]] = {
    "numpy": ("numpy", "np", set(), set()),
    "flax": ("jax", "jax", set(), {"float64", "int64", "uint64"}),
    "tensorflow": ("tensorflow", "tf", {"float8_e8m0fnu"}, set()),
    "mlx": ("mlx.core", "mlx", {n for n in EXTENDED if n != "bfloat16"}, {"float64"}),
    "paddle": ("paddle", "paddle", {"uint16", "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz"}, set()),
}  # fmt: skip


class Module:
    def __init__(self, name: str) -> None:
        self.name = name
        needs, self.framework, self.lacks, self.changes = MODULES[name]
        framework(needs)
        self.module = importlib.import_module(f"safetensors.{name}")

    def to_numpy(self, tensor: Any) -> np.ndarray[Any, Any]:
        if self.name == "numpy":
            return np.asarray(tensor)
        made = self.module._to_numpy(tensor, "t")
        return made[0] if isinstance(made, tuple) else made

    def transposed(self, tensor: Any) -> Any:
        if self.name != "tensorflow":
            return tensor.T
        import tensorflow as tf

        return tf.transpose(tensor)

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        return array if self.name == "numpy" else self.module._from_numpy(array)


@pytest.fixture(params=[name for name, (needs, *_) in MODULES.items() if installed(needs)])
def module(request: pytest.FixtureRequest) -> Module:
    return Module(request.param)


def array_of(name: str, shape: tuple[int, ...] = (3, 4)) -> np.ndarray[Any, Any]:
    dtype = np.dtype(getattr(ml_dtypes, name)) if name in EXTENDED else np.dtype(name)
    return (np.arange(int(np.prod(shape))) % 3).astype(dtype).reshape(shape)


def bits(array: np.ndarray[Any, Any]) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@BACKENDS
@pytest.mark.parametrize("dtype", DTYPES)
def test_round_trip(module: Module, dtype: str, backend: str, tmp_path: Path) -> None:
    arrays = {"a": array_of(dtype), "scalar": array_of(dtype, ()), "empty": array_of(dtype, (0, 3))}
    path = tmp_path / "t"
    safetensors.numpy.save_file(arrays, path, {"k": "v"})
    if dtype in module.lacks:
        with pytest.raises(SafetensorError, match="has no " + dtype):
            module.module.load_file(path, backend=backend)
        return
    loaded = module.module.load_file(path, backend=backend)
    assert set(loaded) == set(arrays)
    for name, tensor in loaded.items():
        assert tuple(tensor.shape) == arrays[name].shape
    if dtype in module.changes:
        return  # the framework itself makes it narrower
    assert module.module.save(loaded, {"k": "v"}) == path.read_bytes()
    module.module.save_file(loaded, tmp_path / "again", {"k": "v"}, durability="none")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    from_bytes = module.module.load(path.read_bytes())
    assert bits(module.to_numpy(from_bytes["a"])) == bits(module.to_numpy(loaded["a"]))


@BACKENDS
def test_slices(module: Module, backend: str, tmp_path: Path) -> None:
    array = array_of("float32", (10, 5))
    safetensors.numpy.save_file({"a": array}, tmp_path / "t")
    with safe_open(tmp_path / "t", module.framework, backend=backend) as f:
        part = f.get_slice("a")
        assert part.get_shape() == [10, 5] and part.get_dtype() == "F32"
        for index in (slice(10, None), slice(-99, 2), slice(3, 3), slice(8, 2), (slice(None), slice(None, None, -2)),
                      (-1, -5), ..., (..., slice(1, 2)), np.int64(3), [], (slice(None, None, -1), 0)):  # fmt: skip
            got = module.to_numpy(part[index])
            assert got.shape == array[index].shape and (got == array[index]).all(), index
        for wrong, text in (
            ((slice(2, None), 20), "^Error during slicing .* with shape .*: index 20 out of bounds for tensor dimension #1 of size 5$"),
            (1.5, "^Unsupported slice index at position 0: expected slice, int, or ellipsis$"),
        ):
            with pytest.raises(SafetensorError, match=text):
                part[wrong]


def test_errors_of_files(module: Module, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=f"^No such file or directory: {tmp_path / 'none'}$"):
        module.module.load_file(tmp_path / "none")
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


@pytest.mark.parametrize("device", ["cuda:0", "mps", "xpu:1"])
def test_only_paddle_and_torch_have_devices(module: Module, device: str, tmp_path: Path) -> None:
    if module.name == "paddle":
        pytest.skip("Paddle has devices")
    safetensors.numpy.save_file({"a": array_of("float32")}, tmp_path / "t")
    with pytest.raises(SafetensorError, match=f"^Device {device} is not supported for framework {module.name}$"):
        safe_open(tmp_path / "t", module.framework, device)
    with safe_open(tmp_path / "t", module.framework, device=None) as f:
        assert module.to_numpy(f.get_tensor("a")).shape == (3, 4)


def test_the_callers_dict_is_left_alone(module: Module, tmp_path: Path) -> None:
    tensors = {"b": module.from_numpy(array_of("float32")), "a": module.from_numpy(array_of("int32"))}
    before = dict(tensors)
    module.module.save(tensors)
    module.module.save_file(tensors, tmp_path / "t")
    assert list(tensors) == list(before) and all(tensors[k] is before[k] for k in before)


def test_tensors_outlive_the_file(module: Module, tmp_path: Path) -> None:
    array = array_of("float32", (512, 1024))  # large enough to be mapped
    safetensors.numpy.save_file({"a": array}, tmp_path / "t")
    with safe_open(tmp_path / "t", module.framework) as f:
        one, part = f.get_tensor("a"), f.get_slice("a")
    (tmp_path / "t").unlink()
    assert (module.to_numpy(one) == array).all() and (module.to_numpy(part[1:]) == array[1:]).all()


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_load_takes_any_buffer(module: Module, kind: Any) -> None:
    array = array_of("float32")
    data = kind(safetensors.numpy.save({"a": array}))
    loaded = module.module.load(data)
    if kind is bytearray:
        data[-4:] = b"\xff\xff\xff\xff"
    assert (module.to_numpy(loaded["a"]) == array).all()


def test_what_is_no_tensor_is_refused(module: Module, tmp_path: Path) -> None:
    for wrong in ({"test": "x"}, {"test": {}}, {"test": None}):
        for call in (module.module.save, lambda t: module.module.save_file(t, tmp_path / "t")):
            with pytest.raises(ValueError, match="^Key `test` is invalid, expected .* but received <class "):
                call(wrong)
    with pytest.raises(ValueError, match=r"^Expected a dict of \[str, .*\] but received <class 'str'>$"):
        module.module.save("x")
    assert not (tmp_path / "t").exists()


def test_any_mapping_is_taken(module: Module, tmp_path: Path) -> None:
    tensors = {"a": module.from_numpy(array_of("float32")), "b": module.from_numpy(array_of("int32"))}
    if module.name == "paddle":
        with pytest.raises(ValueError, match=r"^Expected a dict of \[str, paddle.Tensor\] but received <class 'mappi"):
            module.module.save(MappingProxyType(tensors))
        return
    assert module.module.save(MappingProxyType(tensors)) == module.module.save(tensors)
    module.module.save_file(MappingProxyType(tensors), tmp_path / "t")
    assert (tmp_path / "t").read_bytes() == module.module.save(tensors)


@pytest.mark.parametrize("name", ["flax", "mlx"])
def test_what_numpy_makes_an_array_of_is_saved(name: str) -> None:
    module = Module(name).module
    values = {"list": [1, 2], "number": 1.5, "numpy": np.ones((2, 3), np.float32), "element": np.float32(1)}
    arrays = {key: np.asarray(value) for key, value in values.items()}
    assert module.save(values) == safetensors.numpy.save(arrays)
    with pytest.raises(ValueError, match="^Key `a` is a masked array"):
        module.save({"a": np.ma.array([1, 2], mask=[0, 1])})


def test_tensorflow_saves_whatever_has_numpy() -> None:
    module = Module("tensorflow").module
    import keras
    import tensorflow as tf

    array = array_of("float32")
    want = safetensors.numpy.save({"a": array})
    for value in (tf.constant(array), tf.Variable(array), keras.Variable(array), array):
        assert module.save({"a": value}) == want


def test_arrays_that_are_not_contiguous_are_packed(module: Module) -> None:
    base = array_of("float32", (4, 6))
    tensor = module.from_numpy(base)
    want = safetensors.numpy.save({"a": base.T, "b": base[:, ::2], "c": base[1:3]})
    turned = module.transposed(tensor)
    assert module.module.save({"a": turned, "b": tensor[:, ::2], "c": tensor[1:3]}) == want


@pytest.mark.parametrize("size", [100, 1 << 20])
def test_loaded_tensors_are_independent_of_the_buffer_at_once(module: Module, size: int) -> None:
    want = np.zeros(size, np.float32)
    for _ in range(8):
        with mmap.mmap(-1, len(data := safetensors.numpy.save({"a": want}))) as buffer:
            buffer[:] = data
            tensor = module.module.load(buffer)["a"]
            buffer[-4 * size :] = b"\xff" * (4 * size)
            # Leaving closes it, which is refused while anything holds the memory.
        assert (module.to_numpy(tensor) == 0).all()


@pytest.mark.parametrize("size", [100, 1 << 20])
def test_loaded_tensors_are_independent_of_the_file_at_once(module: Module, size: int, tmp_path: Path) -> None:
    if module.name == "numpy":
        pytest.skip("NumPy's arrays are views of a map of the file")
    data = safetensors.numpy.save({"a": np.zeros(size, np.float32)})
    path = tmp_path / "t"
    for backend in ("mmap", "pread", "auto") * 3:
        path.write_bytes(data)
        loaded = module.module.load_file(path, backend=backend)["a"]
        with safe_open(path, module.framework, backend=backend) as f:
            one, part = f.get_tensor("a"), f.get_slice("a")[1:]
        with open(path, "r+b") as file:
            file.seek(-4 * size, os.SEEK_END)
            file.write(b"\xff" * (4 * size))
        for tensor in (loaded, one, part):
            assert (module.to_numpy(tensor) == 0).all()


def test_paddle_compares_versions_as_versions() -> None:
    module = Module("paddle").module
    for version in ("3.0.0", "3.10.2", "10.0", "0.0.0", "3.3.1-dev", "3.2rc1"):
        module._check_version(version)
    for version in ("2.6.2", "2.10.0", "0.9.9"):
        with pytest.raises(ImportError, match="needs paddlepaddle 3.0 or later"):
            module._check_version(version)


def test_paddle_takes_a_device(tmp_path: Path) -> None:
    module = Module("paddle").module
    import paddle

    safetensors.numpy.save_file({"a": array_of("float32")}, tmp_path / "t")
    assert module.load_file(tmp_path / "t", device="cpu")["a"].place.is_cpu_place()
    for device in (None, "cpu", paddle.CPUPlace()):
        assert module.load((tmp_path / "t").read_bytes(), device)["a"].place.is_cpu_place()


def test_paddle_says_which_devices_there_are(tmp_path: Path) -> None:
    module = Module("paddle").module
    data = safetensors.numpy.save({"a": array_of("float32")})
    (tmp_path / "t").write_bytes(data)
    unknown = "The device must be a string which is like 'cpu', 'gpu', 'gpu:x'"
    for device in ("mps", "bad"):
        with pytest.raises(ValueError, match="^" + unknown):
            module.load(data, device)
    with pytest.raises(SafetensorError, match="^device mps cannot be used: " + unknown):
        module.load_file(tmp_path / "t", "mps")
    with pytest.raises(SafetensorError, match=r"^device bad is invalid$"):
        module.load_file(tmp_path / "t", "bad")


@pytest.mark.parametrize("name", ["paddle", "mlx"])
def test_bfloat16_loads_without_ml_dtypes(name: str, tmp_path: Path) -> None:
    """Neither package brings it."""
    Module(name)
    safetensors.numpy.save_file({"a": array_of("bfloat16")}, tmp_path / "t")
    code = f"""
import sys; sys.modules['ml_dtypes'] = None
import safetensors.{name} as m
from safetensors import safe_open
for backend in ('mmap', 'pread', 'auto'):
    print(m.load_file(sys.argv[1], backend=backend)['a'].dtype)
    with safe_open(sys.argv[1], '{name}', backend=backend) as f: print(f.get_slice('a')[1:].dtype)
print(m.load(open(sys.argv[1], 'rb').read())['a'].dtype)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "t")], capture_output=True, text=True)
    prefix = "mlx.core" if name == "mlx" else name
    assert done.stdout.split() == [f"{prefix}.bfloat16"] * 7, done.stderr
