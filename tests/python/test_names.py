"""Every name of every module of the reference, names that it imports included: programs import all of them."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import installed

import safetensors

NEEDS = {"flax": "jax", "mlx": "mlx.core", "numpy": "numpy", "paddle": "paddle", "tensorflow": "tensorflow", "torch": "torch"}
LINES = [line.split() for line in (Path(__file__).parent / "names_of_reference.txt").read_text().splitlines()]
OLD = {line[0]: set(line[1:]) for line in LINES if line[0] not in "#+"}
ADDED = {line[1]: set(line[2:]) for line in LINES if line[0] == "+"}
OUT_ON_PURPOSE = {
    "paddle._SIZE": "a step of the reference's own conversion; no public program imports it",
    "paddle._to_ndarray": "the same",
    "paddle._view2paddle": "the same",
    "paddle.NPDTYPES": "the same, and it takes bfloat16 for float16",
}


def load_module(module: str) -> Any:
    if module in NEEDS and not installed(NEEDS[module]):
        pytest.skip(f"{NEEDS[module]} is not installed")
    return importlib.import_module("safetensors" if module == "__init__" else f"safetensors.{module}")


@pytest.mark.parametrize("module", OLD)
def test_every_name_of_the_reference_is_there(module: str) -> None:
    loaded = load_module(module)
    expected = OLD[module] | ADDED.get(module, set())
    out = {name.rpartition(".")[2] for name in OUT_ON_PURPOSE if name.startswith(f"{module}.")}
    assert {name for name in expected if not hasattr(loaded, name)} == out
    star: dict[str, Any] = {}
    exec(f"from {loaded.__name__} import *", star)
    assert {name for name in expected - out if not name.startswith("_")} <= star.keys()
    if module not in ("__init__", "_safetensors_rust"):
        assert {name for name in star if name.startswith("_")} == {"__builtins__"}


@pytest.mark.parametrize("module", ["__init__", "_safetensors_rust", "numpy", "torch"])
def test_the_list_has_the_names_of_the_reference(module: str, reference: str) -> None:
    """The list holds what the modules define, and no names that every module has."""
    name = "safetensors" if module == "__init__" else f"safetensors.{module}"
    code = f"import {name} as m, safetensors; print(safetensors.__version__, *dir(m))"
    version, *names = subprocess.run([reference, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    expected = OLD[module] if version.startswith("0.8") else OLD[module] | ADDED.get(module, set())
    common = {"_safetensors_rust", "sys"} - expected  # submodules
    assert {n for n in names if not n.startswith("__") or n == "__version__"} - common == expected


def test_names_are_the_same_objects() -> None:
    rust = load_module("_safetensors_rust")
    for name in OLD["__init__"] | ADDED["__init__"]:
        assert getattr(rust, name) is getattr(safetensors, name) and name in safetensors.__all__ and name in rust.__all__
    for name in ("TensorSpec", "deserialize", "safe_open", "serialize", "serialize_file"):
        assert getattr(load_module("numpy"), name) is getattr(safetensors, name)


def test_private_functions_of_torch() -> None:
    loaded, torch = load_module("torch"), pytest.importorskip("torch")
    assert loaded._float8_e8m0 is torch.float8_e8m0fnu and loaded._float4_e2m1_x2 is torch.float4_e2m1fn_x2
    value = torch.arange(6.0).reshape(2, 3)
    data, owner = loaded._to_ndarray(value)
    assert owner is value and data.ctypes.data == value.data_ptr() and data.tobytes() == value.numpy().tobytes()
    assert loaded._to_ndarray(value.t())[0].tobytes() == value.t().contiguous().numpy().tobytes()
    assert loaded._to_ndarray(torch.tensor(3.0))[0].tolist() == [0, 0, 64, 64]
    assert loaded._evaluate_tensors_for_save({"a": value.t()}) is None
    with pytest.raises(RuntimeError, match="share memory"):
        loaded._evaluate_tensors_for_save({"a": value, "b": value})


def test_private_functions_of_paddle() -> None:
    loaded = load_module("paddle")
    arrays = loaded._paddle2np({"a": loaded.paddle.ones([3], "bfloat16")})
    assert arrays["a"].tolist() == [0x3F80] * 3
    assert loaded._np2paddle({"a": loaded.np.ones(2, "float32")})["a"].tolist() == [1.0, 1.0]
    assert loaded._getdtype("F8_E4M3") == loaded.paddle.float8_e4m3fn
