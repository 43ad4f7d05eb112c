"""load(dtype=...): casts between floats, compared with torch and ml_dtypes, and every name of a dtype."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import framework, text_about

import safetensors.numpy as stn
from safetensors import Checkpoint, SafetensorError, load, stream

ml_dtypes = pytest.importorskip("ml_dtypes")

TORCH = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz", "F8_E8M0": "float8_e8m0fnu",
}  # fmt: skip
NUMPY: dict[str, Any] = {name: getattr(ml_dtypes, said, None) or getattr(np, said) for name, said in TORCH.items()}
FLOATS = "float8_e5m2, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2fnuz, float16, bfloat16, float32, float64"
CASTS = FLOATS + ", uint8, int8, int16, uint16, int32, uint32, int64, uint64"
PAIRS = [(a, b) for a in NUMPY for b in NUMPY if b != "F8_E8M0"]


def numbers(dtype: str) -> Any:
    """All of up to 16 bits; of others those of 32 bits that are hard to round, and many at random."""
    kind = np.dtype(NUMPY[dtype])
    if kind.itemsize <= 2:
        return np.arange(256**kind.itemsize, dtype=f"u{kind.itemsize}").view(kind)
    bits = np.random.default_rng(1).integers(0, 2**32, 40_000, dtype=np.uint32)
    halves = (np.arange(0, 2**16, 3, dtype=np.uint32) << 16) | 0x8000  # ties of BF16
    with np.errstate(over="ignore", invalid="ignore"):
        tens = np.arange(0, 2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
        between = (tens[:-1].astype(np.float64) + tens[1:]) / 2  # ties of F16
        # Only values of F64 that F32 holds, too: otherwise torch rounds twice.
        return np.concatenate([bits.view("f4"), halves.view("f4"), tens, between.astype("f4")]).astype(kind)


def canonical(array: Any) -> bytes:
    """Its bytes, every NaN the same."""
    kind = array.dtype
    with np.errstate(invalid="ignore"):
        nan = np.isnan(array.astype(np.float64))
    raw = array.view(f"u{kind.itemsize}").copy()
    raw[nan] = np.array([np.nan]).astype(kind).view(raw.dtype)[0]
    return raw.tobytes()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("casts") / "t.safetensors"
    stn.save_file({dtype: numbers(dtype) for dtype in NUMPY}, target, durability="none")
    return target


@pytest.mark.parametrize(("stored", "wanted"), PAIRS)
def test_every_number_becomes_what_torch_makes_of_it(path: Path, stored: str, wanted: str) -> None:
    torch = framework("torch")
    made = load(path, keys=[stored], dtype=wanted)[stored]
    assert made.dtype == NUMPY[wanted]
    raw = torch.from_numpy(numbers(stored).view(f"i{np.dtype(NUMPY[stored]).itemsize}"))
    expected = raw.view(getattr(torch, TORCH[stored])).to(getattr(torch, TORCH[wanted]))
    size = np.dtype(NUMPY[wanted]).itemsize
    want = expected.view(getattr(torch, f"int{8 * size}")).numpy().view(NUMPY[wanted])
    assert canonical(made) == canonical(want)
    again = load(path, keys=[stored], dtype=wanted, framework="pt")[stored]
    assert again.dtype == expected.dtype
    assert again.view(getattr(torch, f"int{8 * size}")).numpy().tobytes() == made.tobytes()


def test_parts_are_cast_too_and_into_out(path: Path) -> None:
    want = numbers("BF16")[5:900:7].astype(np.float32)
    loaded = load(path, keys=["BF16"], slices={"BF16": slice(5, 900, 7)}, dtype="F32")["BF16"]
    assert canonical(loaded) == canonical(want)
    out = np.zeros((len(want), 2), np.float32)[:, 1]
    load(path, keys=["BF16"], slices={"BF16": slice(5, 900, 7)}, dtype="F32", out={"BF16": out})
    assert canonical(out.copy()) == canonical(want)
    with pytest.raises(ValueError, match=r"^out\['BF16'\] has dtype BF16, the result F32$"):
        load(path, keys=["BF16"], dtype="F32", out={"BF16": numbers("BF16")})


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    arrays = {"f": np.ones(3, np.float32), "h": np.ones(2, np.float16), "i": np.arange(4), "b": np.ones(1, bool)}
    stn.save_file(arrays, tmp_path / "mixed.safetensors", durability="none")
    return tmp_path / "mixed.safetensors"


def spellings() -> list[Any]:
    given: list[Any] = ["BF16", "bfloat16", "torch.bfloat16", ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16)]
    try:
        import torch
    except ImportError:
        return given
    return [*given, torch.bfloat16]


def test_dtypes_are_named_by_all_who_have_names_for_them(mixed: Path) -> None:
    for given in spellings():
        made = {name: array.dtype for name, array in load(mixed, dtype=given).items()}
        assert made["f"] == made["h"] == ml_dtypes.bfloat16, given
        assert made["i"] == np.int64 and made["b"] == bool
    for given in (np.float16, np.dtype("f2"), np.dtype(">f2"), "F16", "float16"):
        assert load(mixed, dtype=given)["f"].dtype == np.float16


def test_a_dict_casts_only_what_it_names(mixed: Path) -> None:
    made = load(mixed, dtype={"f": np.float64, "h": None, "i": "I64"})
    assert [made[n].dtype for n in "fhi"] == [np.float64, np.float16, np.int64]


@pytest.mark.parametrize(
    ("dtype", "kind", "text"),
    [
        (np.bool_, SafetensorError, f"^cannot cast to BOOL: expected one of {CASTS}$"),
        ("F4", SafetensorError, f"^cannot cast to F4: expected one of {CASTS}$"),
        ("F8_E8M0", SafetensorError, f"^cannot cast to F8_E8M0: expected one of {CASTS}$"),
        ("bf17", SafetensorError, f"^cannot cast to 'bf17': expected one of {CASTS}$"),
        ("fp8", SafetensorError, f"^cannot cast to 'fp8': expected one of {CASTS}$"),
        (3, SafetensorError, "^cannot cast to 3: expected one of "),
        (float, TypeError, "^dtype float does not say how many bits"),
        ({"i": "F32"}, SafetensorError, "tensor `i`: cannot cast I64 to F32"),
        ({"f": "I8"}, SafetensorError, "tensor `f`: cannot cast F32 to I8"),
        ({"i": "BOOL"}, SafetensorError, "tensor `i`: cannot cast I64 to BOOL"),
        ({"z": "F32"}, SafetensorError, "^dtype names a tensor that is not loaded: z$"),
    ],
)
def test_dtypes_that_cannot_be(mixed: Path, dtype: Any, kind: type[Exception], text: str) -> None:
    for call in (load, lambda *a, **k: Checkpoint(*a).stream(**k)):
        with pytest.raises(kind, match=text if text.startswith("^") else text_about(mixed, text)):
            call(mixed, dtype=dtype)


@pytest.mark.parametrize(("stored", "wanted"), [("I64", "U8"), ("U64", "I64"), ("I8", "U64"), ("U16", "I32")])
def test_integers_are_checked(tmp_path: Path, stored: str, wanted: str) -> None:
    """tests/format and tests/plan have all pairs."""
    path, kinds = tmp_path / "i", [np.dtype(name.replace("I", "int").replace("U", "uint")) for name in (stored, wanted)]
    has, fits = map(np.iinfo, kinds)
    low, high = max(has.min, fits.min), min(has.max, fits.max)
    stn.save_file({"t": np.array([[low, 0, high]], kinds[0]), "f": np.ones(2, np.float32)}, path)
    made = load(path, dtype=kinds[1])
    assert made["t"].dtype == kinds[1] and made["t"].tolist() == [[low, 0, high]] and made["f"].dtype == np.float32
    for wrong in (low - 1, high + 1):
        if has.min <= wrong <= has.max:
            stn.save_file({"t": np.array([[0, 1, wrong]], kinds[0])}, path)
            text = f"tensor `t`: cannot cast {stored} to {wanted}: element [0, 2] is {wrong}, the range of "
            with pytest.raises(SafetensorError, match=re.escape(text)):
                load(path, dtype={"t": wanted})


def test_floats_that_may_be_scales_are_warned_about(tmp_path: Path) -> None:
    path = tmp_path / "quantized"
    weight = np.zeros(4, ml_dtypes.float8_e4m3fn)
    stn.save_file({"w": weight, "w.scale": np.ones(1, np.float32), "mask": np.ones(2, bool), "u": np.ones(1, np.uint8)}, path)
    text = "dtype also casts floats that may be the scales of F8_E4M3 tensors: w.scale \\("
    opened = Checkpoint(path)
    for call in (lambda: load(path, dtype="bf16"), lambda: stream(path, dtype="bf16"), lambda: opened.load(dtype="bf16"), lambda: opened.stream(dtype="bf16")):
        with pytest.warns(UserWarning, match=text) as seen:
            call()
        assert [warning.filename for warning in seen] == [__file__]  # where the caller is
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(path, dtype={"w.scale": "bf16"})
        load(path, keys=["w.scale", "mask", "u"], dtype="bf16")
        load(path, dtype="f32")
        load(path, dtype="i64")


def test_4_bits_are_filled_packed(make: Any) -> None:
    packed = np.arange(6, dtype=np.uint8).reshape(2, 3)
    path = make('{"q":{"dtype":"F4","shape":[2,6],"data_offsets":[0,6]}}', packed.tobytes())
    out = np.zeros((2, 3), np.uint8)
    assert load(path, out={"q": out})["q"] is out and (out == packed).all()
    with pytest.raises(ValueError, match=r"^out\['q'\] has shape \(2, 6\), the result \(2, 3\)$"):
        load(path, out={"q": np.zeros((2, 6), np.uint8)})
    with pytest.raises(ValueError, match=r"^out\['q'\] is not contiguous, which F4 must be$"):
        load(path, out={"q": np.zeros((3, 2), np.uint8).T})
    torch = framework("torch")
    tensor = torch.zeros(2, 3, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    load(path, framework="pt", out={"q": tensor})
    assert tensor.view(torch.uint8).tolist() == packed.tolist()
