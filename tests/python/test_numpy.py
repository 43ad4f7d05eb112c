"""Behaviour of NumPy only: memory, byte order, packed dtypes, private names."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS, FRAMEWORKS, framework, sparse

import safetensors.numpy as st
from safetensors import SafetensorError, TensorSpec, deserialize, safe_open, serialize_file


@BACKENDS
def test_arrays_are_writable_and_the_file_never_changes(backend: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    arrays = {"small": np.arange(4.0), "large": np.arange(1 << 18, dtype=np.float64)}
    st.save_file(arrays, path)
    before = path.read_bytes()
    loaded = st.load_file(path, backend=backend)
    with safe_open(path, "np", backend=backend) as f:
        single = {name: f.get_tensor(name) for name in arrays}
        sliced = {name: f.get_slice(name)[1:] for name in arrays}
    for made in (loaded, single, sliced):
        for array in made.values():
            assert array.flags.writeable and array.flags.aligned
            array[:] = -1
    assert path.read_bytes() == before


def test_a_file_larger_than_memory_opens(tmp_path: Path) -> None:
    size = 1 << 42
    path = sparse(tmp_path / "t", (size,))
    array = st.load_file(path)["t0"]
    array[size // 2] = 7
    assert array[size // 2] == 7 and array[-1] == 0 and array.nbytes == size
    with pytest.raises(MemoryError):
        st.load_file(path, backend="pread")


@FRAMEWORKS
def test_misaligned_tensors_are_copied_straight(make: Any, kind: str) -> None:
    path = make(
        '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}}  ',
        b"\1" + struct.pack("<2f", 1, 2),
    )
    load_file = st.load_file if kind == "np" else framework("safetensors.torch").load_file
    for backend in ("mmap", "pread", "auto"):
        loaded = load_file(path, backend=backend)["b"]
        assert np.asarray(loaded).flags.aligned and loaded.tolist() == [1, 2]


@pytest.mark.parametrize("dtype", [">i2", ">u4", ">f8", ">c8", ">f2", "<i4", "=i8"])
def test_byte_order_is_little_endian_in_the_file(dtype: str) -> None:
    array = np.array([[1, 2], [3, 4]], dtype=dtype)
    again = st.load(st.save({"a": array, "b": array.T, "c": array[0, 0]}))
    assert (again["a"] == array).all() and (again["b"] == array.T).all() and again["c"] == 1
    assert array.tobytes() == np.array([[1, 2], [3, 4]], dtype=dtype).tobytes()  # the caller's is as it was


def test_what_numpy_can_hold_but_a_file_cannot() -> None:
    with pytest.raises(ValueError, match="`a` is a masked array"):
        st.save({"a": np.ma.array([1, 2], mask=[0, 1])})
    for array in (np.array([object()]), np.zeros(2, np.complex128), np.array(["x"]), np.zeros(2, "M8[s]"),
                  np.zeros(2, [("x", "i4")])):  # fmt: skip
        with pytest.raises(SafetensorError, match="^Unknown dtype \""):
            st.save({"a": array})


@BACKENDS
def test_4_and_6_bits_stay_packed(backend: str, tmp_path: Path) -> None:
    data = np.arange(24, dtype=np.uint8)

    def spec(name: str, shape: list[int], size: int) -> TensorSpec:
        return TensorSpec(dtype=name, shape=shape, data_ptr=data.ctypes.data, data_len=size)

    path = tmp_path / "t"
    specs = {
        "f4": spec("float4_e2m1fn_x2", [2, 4], 8),
        "f6a": spec("float6_e2m3fn", [4, 8], 24),
        "f6b": spec("float6_e3m2fn", [8, 2, 1], 12),
    }
    serialize_file(specs, path)
    with safe_open(path, "np", backend=backend) as f:
        four, six = f.get_tensor("f4"), f.get_tensor("f6a")
        assert (four.dtype, four.shape) == (np.uint8, (2, 4)) and (six.dtype, six.shape) == (np.uint8, (4, 6))
        assert (four.ravel() == data[:8]).all() and (six.ravel() == data).all()
        assert f.get_slice("f4")[1].shape == (4,)
        with pytest.raises(SafetensorError, match="rows that do not fill whole bytes"):
            f.get_tensor("f6b")


def test_without_ml_dtypes_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    st.save_file({"a": np.zeros(2, ml_dtypes.bfloat16)}, tmp_path / "t")
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    text = "NumPy has no bfloat16, which BF16 needs: install the package ml_dtypes, or load with another framework"
    with pytest.raises(SafetensorError, match=f"^{text}$"):
        st.load_file(tmp_path / "t")


def test_load_without_a_copy_is_as_writable_as_the_buffer() -> None:
    data = st.save({"a": np.arange(6, dtype=np.float32)})
    assert not st.load(data, copy=False)["a"].flags.writeable
    assert st.load(bytearray(data), copy=False)["a"].flags.writeable


def test_the_arrays_of_an_npz_are_saved(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.arange(3)}
    np.savez(tmp_path / "t.npz", **arrays)
    with np.load(tmp_path / "t.npz") as npz:  # reads an array whenever it is asked for
        st.save_file(npz, tmp_path / "t")
        assert st.save(npz) == st.save(arrays) == (tmp_path / "t").read_bytes()


def test_private_names() -> None:
    assert st._TYPES["F32"] is np.float32 and st._TYPES["BOOL"] is bool
    assert st._getdtype("F16") is np.float16
    with pytest.raises(KeyError):
        st._getdtype("XX")
    assert st._is_little_endian(np.zeros(1, "<f4")) and not st._is_little_endian(np.zeros(1, ">f4"))
    assert st._is_little_endian(np.zeros(1, "u1"))
    keep: list[Any] = []
    specs = st._flatten({"a": np.zeros((2, 3), np.float32).T}, keep)
    assert repr(specs["a"]).startswith("TensorSpec(dtype='F32', shape=[3, 2], data_ptr=") and len(keep) == 1
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert (st._view2np(deserialize(st.save({"a": array})))["a"] == array).all()
