"""diff of two files or models, against NumPy, and its errors."""

from __future__ import annotations

import dataclasses
import math
import os
import pickle
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import framework

np = framework("numpy")

from safetensors import DiffResult, SafetensorError, TensorSummary, diff, save  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402


def files(folder: Path, first: dict[str, Any], second: dict[str, Any]) -> tuple[Path, Path]:
    save_file(first, folder / "a.safetensors", durability="none")
    save_file(second, folder / "b.safetensors", durability="none")
    return folder / "a.safetensors", folder / "b.safetensors"


def test_equal_files_have_no_difference(tmp_path: Path) -> None:
    tensors = {"x": np.arange(6.0), "y": np.zeros((0, 3), np.int8)}
    assert diff(*files(tmp_path, tensors, tensors)) == DiffResult([], 2)


def test_one_equal_tensor_is_not_equal(tmp_path: Path) -> None:
    first = {"same": np.ones(2), "other": np.ones(3)}
    a, b = files(tmp_path, first, {**first, "other": np.zeros(3)})
    result = diff(a, b)
    assert result.equal is False and result.equal_tensors == 1
    assert diff(a, a).equal is True and diff(a, b, values=False).equal is True
    assert diff(b, a, atol=1).equal is True and diff(a, b, rename={"same": "gone"}).equal is False


def test_a_result_has_no_truth_value(tmp_path: Path) -> None:
    result = diff(*files(tmp_path, {"x": np.ones(2)}, {"x": np.ones(2)}))
    with pytest.raises(TypeError) as raised:
        bool(result)
    assert str(raised.value) == "a DiffResult has no truth value: use its member `equal`"
    with pytest.raises(TypeError):
        iter(result)  # type: ignore[call-overload]
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.equal_tensors = 2  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(result)) == result


def test_each_kind_of_difference(tmp_path: Path) -> None:
    first = {"gone": np.zeros(1), "shape": np.zeros((2, 3)), "dtype": np.ones(2, np.float32), "values": np.arange(4, dtype=np.float32)}
    second = {"new": np.zeros(1), "shape": np.zeros((3, 2)), "dtype": np.ones(2, np.float64), "values": np.array([0, 1, 2.5, np.nan], np.float32)}
    result = diff(*files(tmp_path, first, second))
    found = result.tensors
    assert result.equal_tensors == 0
    kinds = {(each.first or each.second).name: each for each in found}  # type: ignore[union-attr]
    assert {name: each.kind for name, each in kinds.items()} == {
        "gone": "only_first", "new": "only_second", "shape": "shape", "dtype": "dtype", "values": "values",
    }  # fmt: skip
    assert kinds["new"].first is None and kinds["gone"].second is None
    assert kinds["dtype"].first == TensorSummary("dtype", "F32", (2,)) and kinds["dtype"].differing == 0
    values = kinds["values"]
    assert (values.differing, values.first_differing, values.nan_differing, values.max_error) == (2, 2, 1, 0.5)
    assert math.isclose(values.mean_error, 0.125)


@pytest.mark.parametrize("seed", range(5))
def test_errors_are_those_of_numpy(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    a = random.standard_normal((513, 700)).astype(np.float32)
    b = np.where(random.random(a.shape) < 0.01, a * np.float32(1.001), a).astype(np.float32)
    result = diff(*files(tmp_path, {"w": a, "same": a}, {"w": b, "same": a}), threads=2)
    found = result.tensors
    assert result.equal_tensors == 1 and len(found) == 1
    error = np.abs(a.astype(np.float64) - b)
    assert found[0].differing == int((a != b).sum()) and found[0].first_differing == int((a != b).argmax())
    assert found[0].max_error == error.max() and math.isclose(found[0].mean_error, error.mean(), rel_tol=1e-12)
    paths = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    assert diff(*paths, rtol=1e-4).tensors[0].differing == int((error > 1e-4 * np.abs(b.astype(np.float64))).sum())
    assert diff(*paths, rtol=0.01) == DiffResult([], 2)
    assert diff(*paths, values=False) == DiffResult([], 2)


def test_compares_a_model_with_a_file_and_renames(tmp_path: Path) -> None:
    tensors = {f"layer.{i}": np.full((4, 4), i, np.float32) for i in range(5)}
    save(tensors, tmp_path / "model", max_shard_size=128, durability="none")
    save_file({name.replace("layer", "h"): value for name, value in tensors.items()}, tmp_path / "one.safetensors", durability="none")
    assert len(diff(tmp_path / "model", tmp_path / "one.safetensors").tensors) == 10
    renames = {name: name.replace("layer", "h") for name in tensors}
    assert diff(tmp_path / "model", tmp_path / "one.safetensors", rename=renames) == DiffResult([], 5)
    with pytest.raises(SafetensorError, match="h.1"):
        diff(tmp_path / "model", tmp_path / "one.safetensors", rename={**renames, "layer.0": "h.1"})


def test_wrong_arguments(tmp_path: Path) -> None:
    a, b = files(tmp_path, {"x": np.zeros(2)}, {"x": np.zeros(2)})
    with pytest.raises(FileNotFoundError):
        diff(a, tmp_path / "nothing.safetensors")
    for wrong in (-1.0, math.nan):
        with pytest.raises(SafetensorError, match="rtol"):
            diff(a, b, rtol=wrong)
    with pytest.raises(SafetensorError, match="ulps"):
        diff(a, b, ulps=-1)
    for arguments in ({"rtol": "1"}, {"ulps": 1.5}, {"rename": {1: "x"}}, {"progress": 3}):
        with pytest.raises(TypeError):
            diff(a, b, **arguments)
    with pytest.raises(TypeError):
        diff(a, None)  # type: ignore[arg-type]
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(SafetensorError, match="bad.safetensors|header"):
        diff(a, tmp_path / "bad.safetensors")


def test_progress_and_its_errors(tmp_path: Path) -> None:
    data = {"x": np.zeros(1 << 20, np.float32)}
    a, b = files(tmp_path, data, data)
    calls: list[tuple[int, int]] = []
    diff(a, b, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (4 << 20, 4 << 20)

    def fail(done: int, total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        diff(a, b, progress=fail)


def test_ctrl_c_ends_a_comparison(tmp_path: Path) -> None:
    """Repeats until the signal hits a comparison."""
    data = {"x": np.zeros(16 << 20, np.float32)}
    a, b = files(tmp_path, data, data)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started us with SIGINT ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            for _ in range(10_000):
                diff(a, b)
    finally:
        signal.signal(signal.SIGINT, before)
