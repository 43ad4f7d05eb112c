"""Properties that hold for any shape, dtype, index and dictionary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import framework

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, assume, given, settings  # noqa: E402
from hypothesis import strategies as draw  # noqa: E402
from hypothesis.extra import numpy as arrays  # noqa: E402

from sharded import same  # noqa: E402

import safetensors.numpy as stn  # noqa: E402
from safetensors import SafetensorError, safe_open  # noqa: E402

DTYPES = ["?", "u1", "i1", "<i2", "<u2", "<f2", "<i4", "<u4", "<f4", "<f8", "<i8", "<u8", "<c8"]
MANY = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("folder")


@draw.composite
def array_and_index(choose: Any, torch: bool = False) -> tuple[Any, Any]:
    shape = choose(arrays.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=6))
    dtype = np.dtype(choose(draw.sampled_from(DTYPES)))
    array = (np.arange(int(np.prod(shape))) % 251).astype(dtype).reshape(shape)
    count = choose(draw.integers(0, len(shape)))
    before = choose(draw.integers(0, count)) if choose(draw.booleans()) else None  # an ellipsis behind so many
    sizes = shape[:count] if before is None else shape[:before] + shape[len(shape) - (count - before) :]
    index: list[Any] = []
    for size in sizes:
        if size > 0 and choose(draw.booleans()):
            index.append(choose(draw.integers(-size, size - 1)))
            continue
        bound = draw.none() | draw.integers(-size - 3, size + 3)
        step = choose(draw.none() | (draw.integers(1, 4) if torch else draw.integers(-4, 4).filter(bool)))
        index.append(slice(choose(bound), choose(bound), step))
    if before is not None:
        index.insert(before, ...)
    if torch and choose(draw.booleans()):
        index.insert(choose(draw.integers(0, len(index))), None)
    if len(index) == 1 and choose(draw.booleans()):
        return array, index[0]
    return array, tuple(index)


def past_the_end(array: Any, index: Any) -> bool:
    """Whether a bound is past the end of its dimension, which is an error except for torch."""
    items = list(index) if isinstance(index, tuple) else [index]
    if ... in items:
        at = items.index(...)
        items[at : at + 1] = [slice(None)] * (array.ndim - len(items) + 1)
    return any(isinstance(item, slice) and max(item.start or 0, item.stop or 0) > size for item, size in zip(items, array.shape))


@MANY
@given(array_and_index(), draw.sampled_from(["mmap", "pread", "auto"]))
def test_slices_are_numpy_s(folder: Path, drawn: tuple[Any, Any], backend: str) -> None:
    array, index = drawn
    stn.save_file({"a": array}, folder / "n", durability="none")
    with safe_open(folder / "n", "np", backend=backend) as f:
        if past_the_end(array, index):
            with pytest.raises(SafetensorError, match="out of bounds for tensor dimension"):
                f.get_slice("a")[index]
            return
        got = f.get_slice("a")[index]
    assert same(got, np.asarray(array[index])) and got.flags.c_contiguous


@MANY
@given(array_and_index(torch=True), draw.sampled_from(["mmap", "pread", "auto"]))
def test_slices_are_torch_s(folder: Path, drawn: tuple[Any, Any], backend: str) -> None:
    torch = framework("torch")
    array, index = drawn
    stn.save_file({"a": array}, folder / "t", durability="none")
    tensor = torch.from_numpy(array.copy())
    with safe_open(folder / "t", "pt", backend=backend) as f:
        got = f.get_slice("a")[index]
    want = tensor[index]
    assert got.dtype == want.dtype and got.shape == want.shape and torch.equal(got, want)


@draw.composite
def any_array(choose: Any) -> Any:
    dtype = np.dtype(choose(draw.sampled_from(DTYPES)))
    shape = choose(arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    if choose(draw.booleans()):
        shape = (1,) * choose(draw.integers(0, 60)) + tuple(shape)
    array = (np.arange(int(np.prod(shape))) * 7 % 251).astype(dtype).reshape(shape)
    form = choose(draw.sampled_from(["as it is", "reversed", "transposed", "strided", "swapped", "broadcast", "fortran"]))
    if form == "reversed" and array.ndim:
        return array[::-1]
    if form == "transposed":
        return array.T
    if form == "strided" and array.ndim:
        return array[..., ::2]
    if form == "swapped":
        return array.astype(dtype.newbyteorder(">"))
    if form == "broadcast" and array.ndim < 60:
        return np.broadcast_to(array, (2, *array.shape))
    return np.asfortranarray(array) if form == "fortran" else array


NAMES = draw.text(draw.characters(exclude_categories=["Cs"]), max_size=12).filter(lambda n: n != "__metadata__")


@MANY
@given(
    draw.dictionaries(NAMES, any_array(), max_size=6),
    draw.none() | draw.dictionaries(draw.text(draw.characters(exclude_categories=["Cs"]), max_size=8), NAMES, max_size=3),
    draw.sampled_from(["mmap", "pread", "auto"]),
)
def test_round_trip(folder: Path, tensors: dict[str, Any], metadata: dict[str, str] | None, backend: str) -> None:
    assume(all(a.ndim <= 64 for a in tensors.values()))
    stn.save_file(tensors, folder / "r", metadata, durability="none")
    data = (folder / "r").read_bytes()
    assert data == stn.save(tensors, metadata)
    with safe_open(folder / "r", "np", backend=backend) as f:
        assert f.metadata() == metadata and f.keys() == sorted(tensors, key=str.encode)
        loaded = f.get_tensors()
    for made in (loaded, stn.load(data), stn.load(data, copy=False)):
        assert made.keys() == tensors.keys()
        for name, array in tensors.items():
            assert same(made[name], np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).reshape(array.shape))
    assert stn.save(loaded, metadata) == data
