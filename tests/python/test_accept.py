"""Files with faults that the caller accepts, by `safe_open(..., accept=...)` and `Checkpoint(..., accept=...)`."""

import json
import pickle

import numpy as np
import pytest
from conftest import BACKENDS, FRAMEWORKS, file_bytes

from safetensors import Checkpoint, SafetensorError, safe_open

ALL = ("unknown_dtypes", "unused_bytes")


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.fixture
def path(tmp_path):
    """A file with a tensor of unknown dtype, and 3 unused bytes."""
    return put(tmp_path, {"w": entry("U8", [2], 0, 2), "x": entry("F8_E3M4", [2, 3], 2, 7)}, b"wwxxxxx===")


def put(folder, header, data):
    path = folder / "faults.safetensors"
    path.write_bytes(file_bytes(json.dumps(header), data))
    return path


def opened(path, **options):
    return safe_open(path, "np", **options)


BOTH = pytest.mark.parametrize("open_it", [opened, Checkpoint])


@BOTH
@pytest.mark.parametrize("accept", [(), None, ALL[:1], ALL[1:], "unknown_dtypes"])
def test_every_fault_needs_its_flag(path, accept, open_it):
    with pytest.raises(SafetensorError):
        open_it(path, accept=accept)


@BOTH
def test_refuses_flags_that_it_does_not_know(path, open_it):
    with pytest.raises(SafetensorError, match='accept has `overlap`, expected "unknown_dtypes"'):
        open_it(path, accept=["overlap"])
    for wrong in ([1], 1):
        with pytest.raises(TypeError):
            open_it(path, accept=wrong)


@BOTH
def test_valid_file_has_no_faults(tmp_path, open_it):
    assert open_it(put(tmp_path, {"w": entry("U8", [2], 0, 2)}, b"ww"), accept=ALL).tolerated() == {}


@BACKENDS
@FRAMEWORKS
def test_reads_unknown_dtype_as_bytes(path, backend, kind):
    with safe_open(path, kind, backend=backend, accept=ALL) as f:
        assert f.tolerated() == {"unknown_dtypes": 1, "unused_bytes": 3}
        for array in (f.get_tensor("x"), f.get_tensors()["x"]):
            assert str(array.dtype).removeprefix("torch.") == "uint8"
            assert bytes(array.tolist()) == b"xxxxx"
        assert bytes(f.get_tensor("w").tolist()) == b"ww"
        assert bytes(f.get_slice("w")[1:].tolist()) == b"w"
        assert f.get_slice("x").get_dtype() == "F8_E3M4"
        assert f.get_slice("x").get_shape() == [2, 3]
        assert f.get_tensor_meta("x").dtype == "F8_E3M4"
        assert "F8_E3M4" in repr(f.get_slice("x"))
        assert "F8_E3M4" in repr(f.get_tensor_meta("x"))
        with pytest.raises(SafetensorError, match="cannot slice a tensor of unknown dtype"):
            f.get_slice("x")[0]
        if kind == "pt":
            with pytest.raises(SafetensorError, match="its dtype is unknown"):
                f.prefetch()


@BACKENDS
def test_checkpoint_reads_unknown_dtype_as_bytes(path, backend):
    checkpoint = Checkpoint(path, backend=backend, accept=iter(ALL))
    for array in (checkpoint["x"], checkpoint.load()["x"], checkpoint.load(["x"])["x"], dict(checkpoint.stream())["x"]):
        assert array.dtype == np.uint8
        assert array.tobytes() == b"xxxxx"
    assert checkpoint.get_tensor_meta("x").dtype == checkpoint.get_slice("x").get_dtype() == "F8_E3M4"
    with pytest.raises(SafetensorError, match="cannot slice a tensor of unknown dtype"):
        checkpoint.load(slices={"x": slice(0, 1)})
    assert checkpoint.load(["x"], dtype="float32")["x"].tobytes() == b"xxxxx"  # `dtype` casts floats only


def test_checkpoint_counts_the_faults_of_all_files(path, tmp_path):
    folder = tmp_path / "other"
    folder.mkdir()
    other = put(folder, {"y": entry("U8", [2], 0, 2)}, b"yy=")
    checkpoint = Checkpoint([path, other], accept=ALL)
    assert checkpoint.tolerated() == {"unknown_dtypes": 1, "unused_bytes": 4}
    assert pickle.loads(pickle.dumps(checkpoint)).tolerated() == checkpoint.tolerated()
