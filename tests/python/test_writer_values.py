"""The data of tensors that Writer.write and serialize accept, byte for byte."""

from __future__ import annotations

import array
import ctypes
import mmap
import re
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import framework

import safetensors.numpy as stn
from safetensors import SafetensorError, Writer, deserialize, load, serialize

NATIVE = sys.byteorder == "little"


def written(tmp_path: Path, dtype: str, shape: Any, data: Any, start: int | None = None) -> bytes:
    """The bytes of a tensor that was written."""
    with Writer(tmp_path / "t", {"w": (dtype, shape)}, durability="none") as writer:
        writer.write("w", data, start=start)
    return bytes(deserialize((tmp_path / "t").read_bytes())[0][1]["data"])


F32 = np.arange(6, dtype=np.float32)
RAW = F32.tobytes()


def byte_buffers(tmp_path: Path) -> list[Any]:
    (tmp_path / "raw").write_bytes(RAW)
    with open(tmp_path / "raw", "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    return [
        RAW, bytearray(RAW), memoryview(RAW), memoryview(RAW).cast("b"), memoryview(RAW).cast("c"), mapped,
        array.array("B", RAW), array.array("b", RAW), (ctypes.c_ubyte * 24)(*RAW), F32.view(np.uint8).data,
        F32.view(np.int8).data, memoryview(RAW).cast("B", (2, 12)), memoryview(np.repeat(F32.view(np.uint8), 2))[::2],
    ]  # fmt: skip


def test_buffers_of_bytes_are_raw(tmp_path: Path) -> None:
    for data in byte_buffers(tmp_path):
        assert written(tmp_path, "F32", (2, 3), data) == RAW, data
        if memoryview(data).c_contiguous:
            entry = {"dtype": "float32", "shape": [2, 3], "data": data}
            assert bytes(deserialize(serialize({"w": entry}))[0][1]["data"]) == RAW, data  # type: ignore[dict-item]


TYPED = [
    ("I16", "h"), ("U16", "H"), ("I32", "i"), ("U32", "I"), ("I64", "q"), ("U64", "Q"), ("F32", "f"), ("F64", "d"),
    (f"I{8 * array.array('l').itemsize}", "l"), (f"U{8 * array.array('L').itemsize}", "L"),
]  # fmt: skip
NAMES = {"I16": "int16", "U16": "uint16", "I32": "int32", "U32": "uint32", "I64": "int64", "U64": "uint64",
         "F32": "float32", "F64": "float64", "BOOL": "bool", "F16": "float16", "C64": "complex64"}  # fmt: skip


@pytest.mark.parametrize(("own", "code"), TYPED)
@pytest.mark.parametrize("dtype", sorted(NAMES))
def test_typed_buffers_match_the_dtype(tmp_path: Path, own: str, code: str, dtype: str) -> None:
    # As many bytes as the tensor has: nothing but the dtype can be wrong.
    data = array.array(code, [1] * (16 // array.array(code).itemsize))
    count = 16 // np.dtype(NAMES[dtype]).itemsize
    entry: Any = {"w": {"dtype": NAMES[dtype], "shape": [count], "data": data}}
    if own == dtype:
        assert written(tmp_path, dtype, (count,), data) == data.tobytes()
        assert bytes(deserialize(serialize(entry))[0][1]["data"]) == data.tobytes()
        return
    with pytest.raises(SafetensorError, match=f"^tensor `w` has dtype {dtype}, the data {own}$"):
        written(tmp_path, dtype, (count,), data)
    with pytest.raises(SafetensorError, match=f"^Error while serializing: tensor `w` has dtype {dtype}, the data {own}$"):
        serialize(entry)


def test_buffers_of_numpy_and_ctypes(tmp_path: Path) -> None:
    for dtype, name in NAMES.items():
        values = np.arange(6).astype(name)
        entry: Any = {"w": {"dtype": name, "shape": [6], "data": values.data}}
        assert bytes(deserialize(serialize(entry))[0][1]["data"]) == values.tobytes(), name
        assert written(tmp_path, dtype, (6,), values.data) == values.tobytes()
        assert written(tmp_path, dtype, (2, 3), values.data) == values.tobytes()  # flat, as array.array is
    assert written(tmp_path, "F32", (2, 3), (ctypes.c_float * 6)(*F32)) == RAW
    assert written(tmp_path, "F32", (2, 3), (ctypes.c_float * 3 * 2)((0, 1, 2), (3, 4, 5))) == RAW
    assert written(tmp_path, "F64", (), ctypes.c_double(2.5)) == np.float64(2.5).tobytes()
    with pytest.raises(SafetensorError, match=r"^tensor `w` takes shape \[2, 3\], the data has \[3, 2\]$"):
        written(tmp_path, "F32", (2, 3), F32.reshape(3, 2).data)
    with pytest.raises(SafetensorError, match="^tensor `w` has dtype I32, the data F32$"):
        written(tmp_path, "I32", (6,), (ctypes.c_float * 6)())


def test_buffers_of_other_formats(tmp_path: Path) -> None:
    swapped = F32.astype(">f4")
    if NATIVE:
        assert written(tmp_path, "F32", (6,), memoryview(swapped)) == RAW
        with pytest.raises(SafetensorError, match="has dtype F32, the data format \">f\"$"):
            serialize({"w": {"dtype": "float32", "shape": [6], "data": swapped.data}})  # type: ignore[dict-item]
    pair = np.zeros(3, [("a", "f4"), ("b", "f4")])
    for data, said in ((pair.data, "T{f:a:f:b:}"), (np.zeros(3, "c16").data, "Zd"), (np.zeros(3, "S4").data, "4s")):
        with pytest.raises(SafetensorError, match=f"^tensor `w` has dtype F32, the data format '{re.escape(said)}'$"):
            written(tmp_path, "F32", (6,), data)
        with pytest.raises(SafetensorError, match=f'has dtype F32, the data format "{re.escape(said)}"$'):
            serialize({"w": {"dtype": "float32", "shape": [6], "data": data}})  # type: ignore[dict-item]


def test_arrays_that_have_only_an_interface(tmp_path: Path) -> None:
    class Interface:
        __array_interface__ = F32.__array_interface__

    class Struct:
        __array_struct__ = F32.__array_struct__

    for data in (Interface(), Struct()):
        assert written(tmp_path, "F32", (6,), data) == RAW
        with pytest.raises(SafetensorError, match="^tensor `w` has dtype U8, the data F32$"):
            written(tmp_path, "U8", (24,), data)


@pytest.mark.parametrize(
    ("dtype", "data", "values"),
    [
        ("F32", [0.1, 1, True], np.float32([0.1, 1, 1])),
        ("F32", ((1, 2), (3, 4)), np.float32([[1, 2], [3, 4]])),
        ("F16", 65504, np.float16(65504)),
        ("F64", 2**70, np.float64(2**70)),
        ("F32", [float("inf"), float("-inf")], np.float32([np.inf, -np.inf])),
        ("C64", [1, 2.5, 3j], np.complex64([1, 2.5, 3j])),
        ("I8", [-128, 127, True], np.int8([-128, 127, 1])),
        ("U64", [0, 2**64 - 1], np.uint64([0, 2**64 - 1])),
        ("I64", range(-3, 3), np.arange(-3, 3)),
        ("BOOL", [[True], [False]], np.array([[True], [False]])),
        ("BOOL", True, np.array(True)),
        ("I32", [], np.int32([])),
        ("BOOL", [], np.array([], bool)),
        ("F32", [np.float64(0.1), 2], np.float32([0.1, 2])),
        ("F64", [np.float16(1), 1e300], np.float64([1, 1e300])),
        ("I8", list(np.arange(3)), np.int8([0, 1, 2])),
        ("U64", [np.uint64(2**63), np.int64(1)], np.uint64([2**63, 1])),
        ("I64", [np.uint64(1), -1], np.int64([1, -1])),
        ("BOOL", list(np.array([True, False])), np.array([True, False])),
        ("C64", [np.complex128(1j), np.float64(2), 3], np.complex64([1j, 2, 3])),
        ("F64", np.int32(7), np.float64(7)),
        ("C64", [complex("inf"), complex("nan+1j")], np.complex64([complex("inf"), complex("nan+1j")])),
        ("I64", [np.arange(3), np.arange(3)], np.int64([[0, 1, 2], [0, 1, 2]])),
    ],
)
def test_numbers_become_the_dtype(tmp_path: Path, dtype: str, data: Any, values: Any) -> None:
    assert written(tmp_path, dtype, values.shape, data) == values.tobytes()


def test_numbers_become_small_floats(tmp_path: Path) -> None:
    ml_dtypes = framework("ml_dtypes")
    for dtype, name in (("BF16", "bfloat16"), ("F8_E4M3", "float8_e4m3fn"), ("F8_E5M2", "float8_e5m2")):
        want = np.array([0.1, -2, 3]).astype(getattr(ml_dtypes, name))
        assert written(tmp_path, dtype, (3,), [0.1, -2, 3]) == want.tobytes()
        with pytest.raises(SafetensorError, match=f"^tensor `w` has dtype {dtype}, which cannot hold 1e\\+300$"):
            written(tmp_path, dtype, (2,), [1.0, 1e300])


def test_numbers_of_ml_dtypes_in_lists(tmp_path: Path) -> None:
    ml_dtypes = framework("ml_dtypes")
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        values = np.array([0.5, -2, 3]).astype(getattr(ml_dtypes, name))
        assert written(tmp_path, "F32", (3,), list(values)) == np.float32([0.5, -2, 3]).tobytes()
        assert written(tmp_path, "F32", (3,), [values[0], -2, 3.0]) == np.float32([0.5, -2, 3]).tobytes()
        with pytest.raises(SafetensorError, match="^tensor `w` has dtype I32, the data holds floats$"):
            written(tmp_path, "I32", (3,), list(values))
    bits = np.array([0.1, -2, 3]).astype(ml_dtypes.bfloat16)
    assert written(tmp_path, "BF16", (3,), list(bits)) == bits.tobytes()
    assert written(tmp_path, "BF16", (2, 3), [bits, bits]) == bits.tobytes() * 2


INFINITE = {"F16": True, "F32": True, "F64": True, "BF16": True, "F8_E5M2": True,
            "F8_E4M3": False, "F8_E4M3FNUZ": False, "F8_E5M2FNUZ": False, "F8_E8M0": False}  # fmt: skip


@pytest.mark.parametrize("dtype", INFINITE)
def test_infinities_are_kept_or_refused(tmp_path: Path, dtype: str) -> None:
    if dtype not in ("F16", "F32", "F64"):
        framework("ml_dtypes")
    for number in (float("inf"), float("-inf")):
        if INFINITE[dtype]:
            written(tmp_path, dtype, (1,), [number])
            assert load(tmp_path / "t", dtype="F64")["w"].tolist() == [number]
            continue
        with pytest.raises(SafetensorError, match=f"^tensor `w` has dtype {dtype}, which cannot hold {number}$"):
            written(tmp_path, dtype, (2,), [1.0, number])
    written(tmp_path, dtype, (1,), [float("nan")])
    assert np.isnan(load(tmp_path / "t", dtype="F64")["w"]).all()


def test_parts_of_complex_numbers_are_not_lost(tmp_path: Path) -> None:
    for number in (complex(1e39, 0), complex("inf+1e39j"), complex("1e39+nanj")):
        with pytest.raises(SafetensorError, match="^tensor `w` has dtype C64, which cannot hold "):
            written(tmp_path, "C64", (1,), [number])


@pytest.mark.parametrize(("name", "dtype"), [("float6_e2m3fn", "F6_E2M3"), ("float6_e3m2fn", "F6_E3M2"), ("float4_e2m1fn", "F4")])
def test_arrays_with_a_byte_for_less(tmp_path: Path, name: str, dtype: str) -> None:
    ml_dtypes = framework("ml_dtypes")
    values = np.zeros(8, getattr(ml_dtypes, name))
    text = f" has dtype {name}, which takes a byte for each element, and the format packs {dtype}: "
    for save in (stn.save, lambda tensors: stn.save_file(tensors, tmp_path / "t")):
        with pytest.raises(SafetensorError, match=f"^Key `w`{text}pack it into uint8 and write it with `safetensors.Writer`.$"):
            save({"w": values})
    for target in (dtype, "F32", "U8"):
        with pytest.raises(SafetensorError, match=f"^tensor `w`: the data{text}pack it into uint8$"):
            written(tmp_path, target, (8,), values)
    if dtype == "F4":
        for described in (values, (values.dtype, (8,)), (name, (8,))):
            with pytest.raises(SafetensorError, match=rf"^tensors\['w'\]{text}give \(\"F4\", shape\)$"):
                Writer(tmp_path / "t", {"w": described})
    else:
        with Writer(tmp_path / "t", {"w": values}, durability="none") as writer:
            writer.write("w", np.zeros(6, np.uint8))
        text = rf"^out\['w'\] has dtype {name}, which takes a byte for each element: {dtype} is read into packed uint8$"
        with pytest.raises(ValueError, match=text):
            load(tmp_path / "t", out={"w": values})
    assert [p for p in tmp_path.iterdir() if p.name != "t"] == []


def test_rows_of_numbers(tmp_path: Path) -> None:
    with Writer(tmp_path / "t", {"w": ("I16", (3, 2))}, durability="none") as writer:
        writer.write("w", [[5, 6]], start=2)
        writer.write("w", [[1, 2], [3, 4]], start=0)
    assert load(tmp_path / "t")["w"].tolist() == [[1, 2], [3, 4], [5, 6]]


LOST = "^tensor `w` has dtype {}, which cannot hold {}$"
HOLDS = "^tensor `w` has dtype {}, the data holds {}$"
MISSHAPEN = r"^tensor `w` takes shape \[2\], the data has {}$"


@pytest.mark.parametrize(
    ("dtype", "data", "error", "text"),
    [
        ("I8", [1, 128], SafetensorError, LOST.format("I8", 128)),
        ("U8", [1, -1], SafetensorError, LOST.format("U8", -1)),
        ("I64", [2**63, -1], SafetensorError, LOST.format("I64", 2**63)),
        ("U64", [2**64, 0], SafetensorError, LOST.format("U64", 2**64)),
        ("I32", [1, 2.5], SafetensorError, HOLDS.format("I32", "floats")),
        ("BOOL", [0, 1], SafetensorError, HOLDS.format("BOOL", "integers")),
        ("F32", [1j, 1], SafetensorError, HOLDS.format("F32", "complex numbers")),
        ("F16", [65520, 1], SafetensorError, LOST.format("F16", "65520.0")),
        ("F32", [1e39, 1], SafetensorError, LOST.format("F32", r"1e\+39")),
        ("C64", [1e39, 1j], SafetensorError, "^tensor `w` has dtype C64, which cannot hold "),
        ("F64", [10**400, 1], SafetensorError, "^tensor `w` has dtype F64, which cannot hold all of its integers$"),
        ("F32", [np.float64(1e39), 1], SafetensorError, LOST.format("F32", r"1e\+39")),
        ("I8", list(np.array([1, 128])), SafetensorError, LOST.format("I8", 128)),
        ("U64", [np.uint64(2**63), np.int64(-1)], SafetensorError, LOST.format("U64", -1)),
        ("I32", list(np.array([1.0, 2.0])), SafetensorError, HOLDS.format("I32", "floats")),
        ("BOOL", [np.int8(1), True], SafetensorError, HOLDS.format("BOOL", "integers")),
        ("F32", [np.complex64(1), 2.0], SafetensorError, HOLDS.format("F32", "complex numbers")),
        ("F32", [np.arange(2.0), np.arange(2.0)], SafetensorError, "^tensor `w` has dtype F32, the data F64$"),
        ("F32", [1.0], SafetensorError, MISSHAPEN.format(r"\[1\]")),
        ("F32", 1.0, SafetensorError, MISSHAPEN.format(r"\[\]")),
        ("F32", [[1.0, 2.0]], SafetensorError, MISSHAPEN.format(r"\[1, 2\]")),
        ("F4", [1, 2], SafetensorError, "^tensor `w` has dtype F4, which NumPy makes of no numbers: give its bytes$"),
        ("F32", [[1.0], [1.0, 2.0]], TypeError, "^tensor `w`: list is no array: "),
        *(("F32", data, TypeError, "^tensor `w`: list holds something that is no number$")
          for data in (["a", "b"], [None, 1.0], [np.str_("a"), "b"], list(np.zeros(2, "M8[s]")), list(np.zeros(2, "i4,i4")))),
        *(("F32", data, TypeError, f"^tensor `w`: {type(data).__name__} is neither an array nor bytes$")
          for data in ({"a": 1}, {1.0, 2.0}, Fraction(1, 2), "12")),
        ("F32", np.float64([1, 2]), SafetensorError, "^tensor `w` has dtype F32, the data F64$"),
        ("F32", np.arange(8, dtype=np.uint8), SafetensorError, "^tensor `w` has dtype F32, the data U8$"),
    ],
)
def test_numbers_that_are_refused(tmp_path: Path, dtype: str, data: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        written(tmp_path, dtype, (2,), data)
    assert list(tmp_path.iterdir()) == []


def test_tensors_larger_than_their_storage(tmp_path: Path) -> None:
    torch = framework("torch")
    short = torch.arange(64, dtype=torch.float32)
    short.untyped_storage().resize_(100)
    rows = torch.arange(64, dtype=torch.float32).reshape(8, 8)[:, :2]
    whole = torch.arange(64, dtype=torch.float32).reshape(8, 8)[6:]
    assert written(tmp_path, "F32", (8, 2), rows) == rows.contiguous().numpy().tobytes()
    assert written(tmp_path, "F32", (2, 8), whole) == whole.numpy().tobytes()
    with pytest.raises(ValueError, match="^tensor `w`: the data is larger than its storage of 100 bytes$"):
        written(tmp_path, "F32", (64,), short)
    written(tmp_path, "F32", (64,), [0.5] * 64)
    with pytest.raises(ValueError, match=r"^out\['w'\] is larger than its storage of 100 bytes$"):
        load(tmp_path / "t", out={"w": short})
    rows = torch.zeros(64, 2)[:, :1].squeeze(1)
    assert load(tmp_path / "t", out={"w": rows})["w"].tolist() == [0.5] * 64
