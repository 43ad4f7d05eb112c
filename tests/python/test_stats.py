"""stats of a file or a model, against NumPy, and its errors."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pickle
import shutil
import signal
import subprocess
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from conftest import file_bytes, framework

np = framework("numpy")
ml_dtypes = framework("ml_dtypes")

from safetensors import (  # noqa: E402
    MissingTensorError,
    SafetensorError,
    StatsBin,
    TensorStats,
    save,
    stats,
)
from safetensors.numpy import save_file  # noqa: E402

# The bits of an element, and the type that reads it. Elements under 8 bits are packed.
DTYPES: dict[str, tuple[int, Any]] = {
    "BOOL": (8, np.uint8),
    "U8": (8, np.uint8),
    "I8": (8, np.int8),
    "I16": (16, np.int16),
    "U16": (16, np.uint16),
    "I32": (32, np.int32),
    "U32": (32, np.uint32),
    "I64": (64, np.int64),
    "U64": (64, np.uint64),
    "F16": (16, np.float16),
    "BF16": (16, ml_dtypes.bfloat16),
    "F32": (32, np.float32),
    "F64": (64, np.float64),
    "C64": (64, np.float32),
    "F8_E4M3": (8, ml_dtypes.float8_e4m3fn),
    "F8_E5M2": (8, ml_dtypes.float8_e5m2),
    "F8_E8M0": (8, ml_dtypes.float8_e8m0fnu),
    "F8_E4M3FNUZ": (8, ml_dtypes.float8_e4m3fnuz),
    "F8_E5M2FNUZ": (8, ml_dtypes.float8_e5m2fnuz),
    "F6_E2M3": (6, ml_dtypes.float6_e2m3fn),
    "F6_E3M2": (6, ml_dtypes.float6_e3m2fn),
    "F4": (4, ml_dtypes.float4_e2m1fn),
}


def write(path: Path, dtype: str, data: bytes) -> Path:
    count = len(data) * 8 // DTYPES[dtype][0]
    entry = {"dtype": dtype, "shape": [count], "data_offsets": [0, len(data)]}
    path.write_bytes(file_bytes(json.dumps({"t": entry}), data))
    return path


def numbers_of(dtype: str, data: bytes) -> Any:
    """The numbers as doubles, by NumPy and ml_dtypes."""
    bits, kind = DTYPES[dtype]
    if bits >= 8:
        with np.errstate(invalid="ignore"):
            return np.frombuffer(data, kind).astype(np.float64)
    single = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").reshape(-1, bits)
    codes = (single << np.arange(bits)).sum(axis=1).astype(np.uint8)
    return codes.view(kind).astype(np.float64)


def bins_of(numbers: Any) -> tuple[StatsBin, ...]:
    numbers = numbers[np.isfinite(numbers) & (numbers != 0)]
    exponents = np.frexp(numbers)[1] - 1
    return tuple(
        StatsBin(
            int(exponent),
            int(((exponents == exponent) & (numbers < 0)).sum()),
            int(((exponents == exponent) & (numbers > 0)).sum()),
        )
        for exponent in sorted(set(exponents.tolist()))
    )


def check(found: TensorStats, numbers: Any) -> None:
    """Compares with the definition of each member."""
    finite = numbers[np.isfinite(numbers)]
    assert found.count == len(numbers) and found.nan == np.isnan(numbers).sum()
    assert found.positive_infinity == (numbers == np.inf).sum()
    assert found.negative_infinity == (numbers == -np.inf).sum()
    assert found.zeros == (numbers == 0).sum()
    assert found.histogram is None or found.histogram == bins_of(numbers)
    if len(finite) == 0:
        assert (found.min, found.max, found.absmax, found.mean, found.std) == (None,) * 5
        return
    assert (found.min, found.max) == (finite.min(), finite.max())
    assert found.absmax == np.abs(finite).max()
    assert found.mean is not None and found.std is not None
    mean = sum(map(Fraction, finite.tolist())) / len(finite)
    size = float(np.abs(finite).mean())
    assert abs(found.mean - float(mean)) <= math.ulp(float(mean)) + 1e-30 * size
    assert math.isclose(found.std, finite.std(), rel_tol=1e-12, abs_tol=1e-300)


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_bytes_of_every_dtype(tmp_path: Path, dtype: str) -> None:
    random = np.random.default_rng(1)
    for elements in (8, 1024, 5000):
        data = random.bytes(elements * DTYPES[dtype][0] // 8)
        if dtype == "F64":  # squares of random exponents would be too large
            data = random.standard_normal(elements).tobytes()
        found = stats(write(tmp_path / "t", dtype, data), histogram=True)
        assert list(found) == ["t"]
        each = found["t"]
        assert (each.name, each.dtype, each.shape) == ("t", dtype, (elements,))
        check(each, numbers_of(dtype, data))


@pytest.mark.parametrize("dtype", [name for name in DTYPES if DTYPES[name][0] <= 16])
def test_every_code_of_a_dtype(tmp_path: Path, dtype: str) -> None:
    bits = DTYPES[dtype][0]
    if bits >= 8:
        data = np.arange(1 << bits, dtype=f"u{bits // 8}").tobytes()
    else:
        codes = np.arange(64 if bits == 6 else 16, dtype=np.uint8)[:, None]
        data = np.packbits(codes >> np.arange(bits) & 1, bitorder="little").tobytes()
    each = stats(write(tmp_path / "t", dtype, data), histogram=True)["t"]
    check(each, numbers_of(dtype, data))


def test_nan_infinities_zeros_and_no_finite_number(tmp_path: Path) -> None:
    inf, nan = np.inf, np.nan
    tensors = {
        "mixed": np.array([nan, 1, -0.0, inf, 3, -inf, 0, -inf], np.float32),
        "not_finite": np.array([nan, inf], np.float64),
        "empty": np.zeros((0, 3), np.float16),
        "scalar": np.array(-2.5, np.float32),
    }
    save_file(tensors, tmp_path / "t", durability="none")
    found = stats(tmp_path / "t", histogram=True)
    for name, tensor in tensors.items():
        check(found[name], tensor.astype(np.float64).reshape(-1))
    mixed = found["mixed"]
    assert (mixed.nan, mixed.positive_infinity, mixed.negative_infinity, mixed.zeros) == (
        1,
        1,
        2,
        2,
    )
    assert (mixed.min, mixed.max, mixed.absmax, mixed.mean) == (0, 3, 3, 1)
    assert mixed.histogram == (StatsBin(0, 0, 1), StatsBin(1, 0, 1))
    assert found["empty"].shape == (0, 3) and found["empty"].histogram == ()
    assert found["scalar"].shape == () and found["scalar"].absmax == 2.5
    assert stats(tmp_path / "t")["mixed"].histogram is None


def test_mean_of_small_floats_has_the_digits_of_a_double(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    for kind in (np.float16, ml_dtypes.bfloat16):
        values = (random.standard_normal(118) * 0.02).astype(kind)
        name = "F16" if kind is np.float16 else "BF16"
        found = stats(write(tmp_path / "t", name, values.tobytes()))["t"]
        exact = sum(map(Fraction, values.astype(np.float64).tolist())) / 118
        assert found.mean == float(exact)


def test_squares_that_are_too_large_for_a_float(tmp_path: Path) -> None:
    save_file({"x": np.array([-1e308, 1e308, 5e-324])}, tmp_path / "t", durability="none")
    found = stats(tmp_path / "t", histogram=True)["x"]
    assert found.std is not None and found.absmax == 1e308
    assert math.isclose(found.std, 1e308 * math.sqrt(2 / 3), rel_tol=1e-13)
    save_file({"x": np.array([1e305, 3.6e305])}, tmp_path / "t", durability="none")
    assert math.isclose(stats(tmp_path / "t")["x"].std or 0, 1.3e305, rel_tol=1e-13)
    assert found.histogram is not None
    assert [each.exponent for each in found.histogram] == [-1074, 1023]


def test_a_result_is_frozen(tmp_path: Path) -> None:
    save_file({"x": np.ones(3)}, tmp_path / "t", durability="none")
    found = stats(tmp_path / "t", histogram=True)["x"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.min = 2.0  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(found)) == found and len({found, found}) == 1


def test_a_model_of_several_files(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    tensors = {f"layer.{i}": random.standard_normal((30, 70)).astype(np.float32) for i in range(9)}
    save(tensors, tmp_path / "model", max_shard_size="20KB", durability="none")
    assert len(list((tmp_path / "model").glob("*.safetensors"))) > 3
    found = stats(tmp_path / "model", threads=2)
    assert sorted(found) == sorted(tensors)
    for name, tensor in tensors.items():
        check(found[name], tensor.astype(np.float64).reshape(-1))
    assert stats(sorted((tmp_path / "model").glob("*.safetensors")), threads=1) == found
    assert stats(tmp_path / "model" / "model.safetensors.index.json", threads=16) == found


def test_keys_are_names_and_patterns(tmp_path: Path) -> None:
    save_file(
        {"a.w": np.ones(2), "a.b": np.ones(2), "c": np.ones(2)}, tmp_path / "t", durability="none"
    )
    assert list(stats(tmp_path / "t", keys=["c", "a.*"])) == ["c", "a.b", "a.w"]
    assert list(stats(tmp_path / "t", keys=("c", "c"))) == ["c"]
    assert stats(tmp_path / "t", keys=[]) == {}
    for keys in (["nothing"], ["n*"], ["c", "\ud800"]):
        with pytest.raises(MissingTensorError):
            stats(tmp_path / "t", keys=keys)
    for wrong in ("c", [1], 1):
        with pytest.raises(TypeError):
            stats(tmp_path / "t", keys=wrong)  # type: ignore[arg-type]


def test_only_selected_tensors_are_read(tmp_path: Path) -> None:
    data = {"a": np.zeros(100, np.uint8), "b": np.zeros(5000, np.uint8)}
    save_file(data, tmp_path / "t", durability="none")
    calls: list[tuple[int, int]] = []
    stats(tmp_path / "t", keys=["b"], progress=lambda done, total: calls.append((done, total)))
    assert calls == [(5000, 5000)]


def test_hostile_names_are_keys(tmp_path: Path) -> None:
    names = ["", "\x00\n", "\u202eevil", "../../etc", "__class__", "x" * 10_000]
    entries = {
        name: {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]}
        for i, name in enumerate(names)
    }
    (tmp_path / "t").write_bytes(file_bytes(json.dumps(entries), b"abcdef"))
    found = stats(tmp_path / "t")
    assert list(found) == names
    assert [each.min for each in found.values()] == [97, 98, 99, 100, 101, 102]


def test_wrong_arguments_and_files(tmp_path: Path) -> None:
    save_file({"x": np.zeros(2)}, tmp_path / "t", durability="none")
    with pytest.raises(FileNotFoundError):
        stats(tmp_path / "nothing")
    with pytest.raises(OSError):
        stats("/dev/null")
    for arguments in ({"threads": 1.5}, {"progress": 3}, {"histogram": "yes"}, {"keys": 3}):
        with pytest.raises(TypeError):
            stats(tmp_path / "t", **arguments)
    with pytest.raises(SafetensorError, match="threads"):
        stats(tmp_path / "t", threads=-1)
    with pytest.raises(TypeError):
        stats(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        stats(tmp_path / "t", ["x"])  # type: ignore[call-arg]
    (tmp_path / "bad").write_bytes(b"\xff" * 100)
    with pytest.raises(SafetensorError, match="bad|header"):
        stats(tmp_path / "bad")


def test_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    """It must not end the process with SIGBUS, as a map would."""
    size = 1 << 30  # a hole, which takes longer to read than the time until the first report
    header = {"x": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    (tmp_path / "t").write_bytes(file_bytes(json.dumps(header)))
    os.truncate(tmp_path / "t", (tmp_path / "t").stat().st_size + size)

    def cut(done: int, total: int) -> None:
        assert done < total
        os.truncate(tmp_path / "t", 1000)

    with pytest.raises(SafetensorError) as raised:
        stats(tmp_path / "t", threads=1, progress=cut)
    assert raised.value.code == "file_truncated"


def test_progress_and_its_errors(tmp_path: Path) -> None:
    save_file({"x": np.zeros(1 << 20, np.float32)}, tmp_path / "t", durability="none")
    calls: list[tuple[int, int]] = []
    stats(tmp_path / "t", progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (4 << 20, 4 << 20)

    def fail(done: int, total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stats(tmp_path / "t", progress=fail)


def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    """Repeats until the signal hits a call."""
    save_file({"x": np.zeros(16 << 20, np.float32)}, tmp_path / "t", durability="none")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have ignored it
    try:
        with pytest.raises(KeyboardInterrupt):
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            for _ in range(10_000):
                stats(tmp_path / "t")
    finally:
        signal.signal(signal.SIGINT, before)


def test_threads_may_call_it_at_once(tmp_path: Path) -> None:
    save_file({"x": np.arange(1 << 20, dtype=np.float32)}, tmp_path / "t", durability="none")
    expected = stats(tmp_path / "t")
    found: list[dict[str, TensorStats]] = []
    threads = [
        threading.Thread(target=lambda: found.append(stats(tmp_path / "t", threads=2)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_members_are_those_of_the_command(tmp_path: Path) -> None:
    command = shutil.which("safetensors")
    if command is None:
        pytest.skip("the command safetensors is not on the PATH")
    tensors = {"b": np.array([1.5, np.nan, -2]), "a": np.array([np.inf], np.float32)}
    save_file(tensors, tmp_path / "t", durability="none")
    done = subprocess.run(
        [command, "stats", "--json", "--histogram", "--sort", "offset", tmp_path / "t"],
        capture_output=True,
        text=True,
        check=True,
    )
    listed = json.loads(done.stdout)["files"][0]["tensors"]
    found = stats(tmp_path / "t", histogram=True)
    for each, expected in zip(found.values(), listed, strict=True):
        made = dataclasses.asdict(each)
        made["shape"] = list(each.shape)
        made["histogram"] = [bin._asdict() for bin in each.histogram or ()]
        assert made == expected and list(made) == list(expected)
