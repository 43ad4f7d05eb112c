"""The functions of the package, TensorSpec and safe_open: their names, signatures and error texts."""

from __future__ import annotations

import json
import mmap
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS, raises, run

import safetensors
from safetensors import SafetensorError, TensorSpec, _safe_open_handle, deserialize, safe_open, serialize, serialize_file

DATA = np.arange(50, dtype=np.int32).reshape(10, 5)


def spec(array: np.ndarray[Any, Any]) -> TensorSpec:
    return TensorSpec(dtype=array.dtype.name, shape=array.shape, data_ptr=array.ctypes.data, data_len=array.nbytes)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    zero = np.zeros((0, 3), np.float32)
    scalar = np.array(3, dtype=np.float32)
    target = tmp_path / "o.safetensors"
    serialize_file({"a": spec(DATA), "s": spec(scalar), "z": spec(zero)}, target, {"k": "v"})
    return target


def test_version_is_that_of_the_file_version() -> None:
    release = Path(__file__).parents[2].joinpath("VERSION").read_text().strip()
    assert safetensors.__version__ == release


def test_metadata_and_keys_need_no_framework(path: Path) -> None:
    code = (
        "import sys; from safetensors import safe_open\n"
        "with safe_open(sys.argv[1], 'pt') as f: assert f.keys() and f.metadata()\n"
        "assert not sys.modules.keys() & {'torch', 'numpy'}"
    )
    run(code, path)


def test_the_error_is_an_exception_of_the_reference_s_module_and_picklable() -> None:
    assert SafetensorError.__module__ == "safetensors._safetensors_rust"
    assert SafetensorError.__mro__[1] is Exception
    again = pickle.loads(pickle.dumps(SafetensorError("x")))
    assert type(again) is SafetensorError and str(again) == "x"


# TensorSpec


def test_a_spec_shows_what_the_file_will_have() -> None:
    made = TensorSpec(dtype="float32", shape=[2, 3], data_ptr=1, data_len=24)
    assert repr(made) == "TensorSpec(dtype='F32', shape=[2, 3], data_ptr=1, data_len=24)"
    assert (made.dtype, made.shape, made.data_ptr, made.data_len) == ("F32", [2, 3], 1, 24)
    with pytest.raises(AttributeError):
        made.dtype = "F64"  # type: ignore[misc]


def test_a_spec_of_packed_f4_counts_elements() -> None:
    made = TensorSpec(dtype="float4_e2m1fn_x2", shape=[2, 3], data_ptr=1, data_len=6)
    assert (made.dtype, made.shape) == ("F4", [2, 6])
    with pytest.raises(SafetensorError, match="too large"):
        TensorSpec(dtype="float4_e2m1fn_x2", shape=[2**63], data_ptr=1, data_len=6)


def test_a_spec_takes_keywords_only() -> None:
    with pytest.raises(TypeError):
        TensorSpec("float32", [1], 0, 0)  # type: ignore[misc]


def test_a_spec_refuses_unknown_dtypes_and_negative_numbers() -> None:
    with raises(
        SafetensorError,
        'Unknown dtype "x". Supported dtypes: bool, int8, uint8, int16, uint16, int32, uint32, int64, uint64, float16,'
        " float32, float64, bfloat16, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu,"
        " float4_e2m1fn_x2, complex64, float6_e2m3fn, float6_e3m2fn",
    ):
        TensorSpec(dtype="x", shape=[1], data_ptr=0, data_len=0)
    with raises(OverflowError, "can't convert negative int to unsigned"):
        TensorSpec(dtype="float32", shape=[-1], data_ptr=0, data_len=0)
    with pytest.raises(TypeError):
        TensorSpec(dtype="float32", shape=["1"], data_ptr=0, data_len=0)  # type: ignore[list-item]


# serialize, serialize_file, deserialize


def test_bytes_are_those_of_the_format() -> None:
    array = np.arange(6, dtype=np.float32)
    one = TensorSpec(dtype="float32", shape=[2, 3], data_ptr=array.ctypes.data, data_len=24)
    header = b'{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}       '
    assert serialize({"a": one}) == len(header).to_bytes(8, "little") + header + array.tobytes()
    header = b'{"__metadata__":{},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}     '
    assert serialize({"a": one}, {}) == len(header).to_bytes(8, "little") + header + array.tobytes()


DTYPES = {
    "bool": 8, "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64, "uint64": 64,
    "float16": 16, "float32": 32, "float64": 64, "bfloat16": 16, "float8_e4m3fn": 8, "float8_e4m3fnuz": 8, "float8_e5m2": 8,
    "float8_e5m2fnuz": 8, "float8_e8m0fnu": 8, "float4_e2m1fn_x2": 8, "complex64": 64, "float6_e2m3fn": 6, "float6_e3m2fn": 6,
}  # fmt: skip
ODD_NAMES = ["", "../../x", 'a"b\\c/d\n\t\x01\x7f', "gr\u00f6\u00dfe \U0001f980 \uffff", "nul\0"]


def test_all_dtypes_and_odd_names_are_where_the_format_says(tmp_path: Path) -> None:
    """A reader that knows only the format: 8 bytes, N, JSON, then the bytes from 8 + N + begin on."""
    data = np.arange(1, 65, dtype=np.uint8)
    address = data.ctypes.data
    tensors = {name: TensorSpec(dtype=name, shape=[2, 4], data_ptr=address, data_len=bits) for name, bits in DTYPES.items()}
    tensors |= {name: TensorSpec(dtype="uint8", shape=[i], data_ptr=address, data_len=i) for i, name in enumerate(ODD_NAMES)}
    metadata = {"k\u00e9\n": '"v\\', "": ""}
    serialize_file(tensors, tmp_path / "all", metadata)
    raw = (tmp_path / "all").read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    assert start % 8 == 0 and header.pop("__metadata__") == metadata and header.keys() == tensors.keys()
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert raw[start + begin : start + end] == data[: tensors[name].data_len].tobytes()
        assert (entry["dtype"], entry["shape"]) == (tensors[name].dtype, tensors[name].shape)
    assert start + max(entry["data_offsets"][1] for entry in header.values()) == len(raw)
    assert len({entry["dtype"] for entry in header.values()}) == len(DTYPES) == 22
    with safe_open(tmp_path / "all", "np") as f:
        assert {name: f.get_slice(name).get_dtype() for name in f.keys()} == {name: entry["dtype"] for name, entry in header.items()}


@pytest.mark.parametrize(
    ("tensors", "metadata", "text"),
    [
        ([1], None, "argument 'tensor_dict': 'list' object is not an instance of 'dict'"),
        ({1: None}, None, "argument 'tensor_dict': 'int' object is not an instance of 'str'"),
        ({"a": 1}, None, "argument 'tensor_dict': 'int' object is not an instance of 'TensorSpec'"),
        (
            {"a": {"dtype": "float32", "shape": [1], "data_ptr": 1, "data_len": 4}},
            None,
            "argument 'tensor_dict': 'dict' object is not an instance of 'TensorSpec'",
        ),
        ({}, [1], "argument 'metadata': 'list' object is not an instance of 'dict'"),
        ({}, {"a": 1}, "argument 'metadata': 'int' object is not an instance of 'str' (key `a`)"),
        ({}, {1: "a"}, "argument 'metadata': 'int' object is not an instance of 'str'"),
    ],
)
def test_arguments_of_the_wrong_type_are_type_errors(tensors: Any, metadata: Any, text: str, tmp_path: Path) -> None:
    with raises(TypeError, text):
        serialize(tensors, metadata)
    with raises(TypeError, text):
        serialize_file(tensors, tmp_path / "t", metadata)
    assert not (tmp_path / "t").exists()


def test_what_no_file_can_hold_is_not_written(tmp_path: Path) -> None:
    array = np.zeros(6, np.float32)
    wrong = TensorSpec(dtype="float32", shape=[6], data_ptr=array.ctypes.data, data_len=23)
    with raises(SafetensorError, "Error while serializing: tensor `a`: 23 bytes given, F32 [6] needs 24"):
        serialize({"a": wrong})
    with pytest.raises(SafetensorError, match="^Error while serializing: .*__metadata__"):
        serialize_file({"__metadata__": spec(array)}, tmp_path / "t")
    with pytest.raises(SafetensorError, match="^Error while serializing: .*null data_ptr"):
        serialize({"a": TensorSpec(dtype="float32", shape=[6], data_ptr=0, data_len=24)})
    assert os.listdir(tmp_path) == []


def test_a_path_that_cannot_be_written_names_itself(tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "t"
    with pytest.raises(SafetensorError) as caught:
        serialize_file({}, missing)
    assert str(caught.value).startswith("Error while serializing: ") and str(missing) in str(caught.value)
    assert caught.value.errno == 2  # type: ignore[attr-defined]


def test_deserialize_takes_any_buffer_and_gives_fresh_bytes() -> None:
    data = serialize({"b": spec(DATA), "a": spec(np.zeros((0, 3), np.uint8))})
    anonymous = mmap.mmap(-1, len(data))
    anonymous.write(data)
    for buffer in (data, bytearray(data), memoryview(data), anonymous):
        result = deserialize(buffer)
        assert [name for name, _ in result] == ["b", "a"]
        info = dict(result)["b"]
        assert (info["shape"], info["dtype"]) == ([10, 5], "I32")
        assert type(info["data"]) is bytearray and info["data"] == DATA.tobytes()
        info["data"][0] = 255
    assert bytes(anonymous[:]) == data
    with raises(
        SafetensorError,
        "Error while deserializing: header too small: the file has 2 bytes, the length of the header alone takes 8",
    ):
        deserialize(b"xx")
    with pytest.raises(TypeError):
        deserialize("xx")  # type: ignore[arg-type]


# safe_open


@BACKENDS
def test_a_file_is_looked_at_and_loaded(path: Path, backend: str) -> None:
    with safe_open(path, "np", backend=backend) as f:
        assert f.keys() == ["a", "s", "z"]
        assert f.offset_keys() == ["s", "z", "a"]
        assert f.metadata() == {"k": "v"}
        assert (f.get_tensor("a") == DATA).all()
        assert f.get_tensor("s").shape == () and f.get_tensor("z").shape == (0, 3)
        assert list(f.get_tensors()) == ["s", "z", "a"]
        part = f.get_slice("a")
        assert (part.get_shape(), part.get_dtype()) == ([10, 5], "I32")
        assert len(f) == 3 and "a" in f and "b" not in f and 1 not in f and list(f) == f.keys()


def test_metadata_may_be_missing(tmp_path: Path) -> None:
    serialize_file({}, tmp_path / "t")
    with safe_open(tmp_path / "t", "np") as f:
        assert f.metadata() is None and f.keys() == [] and f.get_tensors() == {}


def test_closed_is_closed(path: Path) -> None:
    with safe_open(path, "np") as f:
        part = f.get_slice("a")
        tensor = f.get_tensor("a")
    calls = [f.keys, f.offset_keys, f.metadata, f.get_tensors, f.__len__, lambda: "a" in f, lambda: list(f)]
    for call in [*calls, lambda: f.get_tensor("a"), lambda: f.get_slice("a")]:
        with raises(SafetensorError, "File is closed"):
            call()
    path.unlink()
    assert (part[2:4] == DATA[2:4]).all() and (tensor == DATA).all()


def test_unknown_names(path: Path) -> None:
    with safe_open(path, "np") as f:
        for call in (f.get_tensor, f.get_slice):
            with raises(SafetensorError, "File does not contain tensor zz"):
                call("zz")
            with raises(TypeError, "argument 'name': 'int' object is not an instance of 'str'"):
                call(3)


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        (["xx"], {}, "framework xx is invalid"),
        (["np"], {"backend": "x"}, 'backend "x" is invalid (expected one of: "mmap", "pread", "auto")'),
        (["np", "cuda:0"], {}, "Device cuda:0 is not supported for framework numpy"),
        (["np", "cuda"], {}, "Device cuda:0 is not supported for framework numpy"),
        (["tf", 1], {}, "Device 1 is not supported for framework tensorflow"),
        (["tf", np.int64(1)], {}, "Device 1 is not supported for framework tensorflow"),
        (["jax", "mps"], {}, "Device mps is not supported for framework flax"),
        (["mlx", "xpu:3"], {}, "Device xpu:3 is not supported for framework mlx"),
        *((["pt", d], {}, f"device {d} is invalid") for d in ("xx", "cuda:x", "cuda:-1", "cpu:1", "gpu", "", "CPU", " cpu", -1, 1.5, True)),
        (["pt", "mps:1"], {}, "device mps:1 is invalid: only mps or mps:0 is supported"),
    ],
)
def test_what_is_asked_for_must_exist(path: Path, arguments: list[Any], options: Any, text: str) -> None:
    with raises(SafetensorError, text):
        safe_open(path, *arguments, **options)


def test_errors_of_the_system_keep_their_class_and_path(tmp_path: Path) -> None:
    with raises(FileNotFoundError, "No such file or directory: /nope/t"):
        safe_open("/nope/t", "np")
    with pytest.raises(IsADirectoryError) as caught:
        safe_open(tmp_path, "np")
    assert caught.value.filename == str(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match="not a regular file"):
        safe_open(tmp_path / "fifo", "np")
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OSError) as other:
        safe_open(loop, "np")
    assert other.value.errno == 40 and other.value.filename == str(loop)


def test_a_broken_header_says_what_and_where(make: Any) -> None:
    broken = make('{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}', bytes(4))
    with pytest.raises(SafetensorError, match="^Error while deserializing header: ") as caught:
        safe_open(broken, "np")
    assert caught.value.code == "size_mismatch" and caught.value.offset == 9  # type: ignore[attr-defined]
    notes = [f"file: {broken}"] if sys.version_info >= (3, 11) else []
    assert getattr(caught.value, "__notes__", []) == notes


def test_an_open_file_object(path: Path) -> None:
    with open(path, "rb") as opened:
        f = _safe_open_handle(opened, "np")
    with f:
        assert (f.get_tensor("a") == DATA).all() and f.metadata() == {"k": "v"}
    with open(path, "rb") as opened:
        g = _safe_open_handle(opened, "np", backend="pread")
    assert (g.get_slice("a")[1] == DATA[1]).all()


# Slices, in the form that all frameworks except torch accept. Hypothesis and the reference say which values are right.


def test_slices_are_arrays_of_their_own(path: Path) -> None:
    with safe_open(path, "np") as f:
        for index in (True, (slice(None, None, -3), slice(None, None, -2)), (np.int64(3), slice(np.int64(1), None)), []):
            got = f.get_slice("a")[index]
            want = DATA[int(index) if index is True else index]
            assert got.dtype == want.dtype and got.shape == want.shape and (got == want).all()
            assert got.flags.writeable and got.flags.c_contiguous


SLICING = "Error during slicing {} with shape [10, 5]: "
BEYOND = SLICING + "index {} out of bounds for tensor dimension #{} of size {}"


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ((slice(5, 20), -6), "Invalid index -6 for dimension 1 of size 5"),
        ((slice(2, None), 20), BEYOND.format("[2:, 20]", 20, 1, 5)),
        (slice(None, 20), BEYOND.format("[:20]", 19, 0, 10)),
        (slice(12, 20), BEYOND.format("[12:20]", 12, 0, 10)),  # the start, if it is beyond
        ((30, 20), BEYOND.format("[30, 20]", 20, 1, 5)),  # dimensions are checked last to first
        (slice(20, 30, 2), BEYOND.format("[20:30:2]", 20, 0, 10)),
        ([1, 2], "Non empty lists are not implemented"),
        ((1, None), "Unsupported slice index at position 1: expected slice, int, or ellipsis"),
        (slice(None, None, 0), "Slice step must not be zero"),
    ],
)
def test_slices_that_are_wrong_say_how(path: Path, index: Any, text: str) -> None:
    """test_slices_reference.py compares the texts of many more indices with those of the reference."""
    with safe_open(path, "np") as f, raises(SafetensorError, text):
        f.get_slice("a")[index]


def test_bounds_must_be_integers(path: Path) -> None:
    with safe_open(path, "np") as f:
        with raises(TypeError, "'float' object cannot be interpreted as an integer"):
            f.get_slice("a")[1.5:]


def test_tensors_without_dimensions_or_elements_are_sliced(path: Path) -> None:
    with safe_open(path, "np") as f:
        scalar = f.get_slice("s")
        assert scalar[...] == 3 and scalar[()] == 3
        with raises(SafetensorError, "Error during slicing [0] with shape []: more slicing indexes than dimensions in tensor"):
            scalar[0]
        empty = f.get_slice("z")
        assert empty[:].shape == (0, 3) and empty[:, 1].shape == (0,)
        with raises(
            SafetensorError,
            "Error during slicing [0] with shape [0, 3]: index 0 out of bounds for tensor dimension #0 of size 0",
        ):
            empty[0]
