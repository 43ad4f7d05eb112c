"""Random checkpoints, slices, casts and destinations, compared with a naive reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sharded
from conftest import installed

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as draw  # noqa: E402
from hypothesis.extra import numpy as arrays  # noqa: E402

from safetensors import Checkpoint  # noqa: E402

DTYPES = ["?", "u1", "i1", "<i2", "<f2", "<f4", "<f8", "<i8", "<c8"]
FLOATS = ["<f2", "<f4", "<f8"]
MANY = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("folder")


def filled(shape: tuple[int, ...], dtype: str) -> Any:
    return (np.arange(int(np.prod(shape))) * 7 % 251).astype(dtype).reshape(shape)


@draw.composite
def index_of(choose: Any, shape: tuple[int, ...]) -> Any:
    if not shape or choose(draw.booleans()):
        return None
    index: list[Any] = []
    for size in shape[: choose(draw.integers(0, len(shape)))]:
        if size and choose(draw.booleans()):
            index.append(choose(draw.integers(-size, size - 1)))
            continue
        bound = draw.none() | draw.integers(-size - 1, size)
        index.append(slice(choose(bound), choose(bound), choose(draw.sampled_from([None, 1, 2, 3, -1, -2]))))
    if choose(draw.booleans()):
        index.append(...)
    return tuple(index)


@draw.composite
def destination(choose: Any, like: Any) -> Any:
    """An array of that shape and dtype, laid out somehow."""
    how = choose(draw.sampled_from(["contiguous", "transposed", "strided", "inner"]))
    if how == "transposed":
        return np.zeros(like.shape[::-1], like.dtype).T
    if how == "strided" and like.ndim:
        return np.zeros((*like.shape[:-1], like.shape[-1] * 2), like.dtype)[..., ::2]
    if how == "inner" and like.ndim:
        return np.zeros((like.shape[0] + 1, *like.shape[1:]), like.dtype)[1:]
    return np.zeros(like.shape, like.dtype)


@draw.composite
def request(choose: Any) -> Any:
    """Arrays, and for each what is asked of it and what should come."""
    shapes = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9)
    asked: dict[str, Any] = {}
    for i in range(choose(draw.integers(1, 6))):
        array = filled(choose(shapes), choose(draw.sampled_from(DTYPES)))
        index = choose(index_of(array.shape))
        want = np.asarray(array if index is None else array[index])
        cast = None
        if array.dtype.kind == "f" and choose(draw.booleans()):
            cast = np.dtype(choose(draw.sampled_from(FLOATS)))
            want = want.astype(cast)
        out = choose(destination(want)) if choose(draw.booleans()) else None
        asked[f"t{i}"] = (array, index, cast, out, np.ascontiguousarray(want).reshape(want.shape))
    return asked


@MANY
@given(
    request(),
    draw.integers(1, 3),
    draw.sampled_from(["auto", "keep", "fill"]),
    draw.integers(0, 4),
    draw.sampled_from([0, 1, 100, 1 << 20]),
    draw.sampled_from(["auto", "pread", "mmap"]),
)
def test_load_and_stream_give_what_numpy_does(
    folder: Path, asked: dict[str, Any], files: int, cache: str, threads: int, memory_limit: int, backend: str
) -> None:
    for old in folder.iterdir():
        old.unlink()
    checkpoint = Checkpoint(sharded.save(folder, {n: a[0] for n, a in asked.items()}, files), backend=backend)
    out = {name: a[3] for name, a in asked.items() if a[3] is not None}
    options: dict[str, Any] = {
        "slices": {name: a[1] for name, a in asked.items() if a[1] is not None},
        "dtype": {name: a[2] for name, a in asked.items() if a[2] is not None},
        "out": out,
        "cache": cache,
        "threads": threads,
        "memory_limit": memory_limit,
    }
    for way in (checkpoint.load, lambda **k: dict(checkpoint.stream(**k))):
        for array in out.values():
            array[...] = 0
        loaded = way(**options)
        assert loaded.keys() == asked.keys()
        for name, (_, _, _, target, want) in asked.items():
            assert target is None or loaded[name] is target
            assert sharded.same(np.ascontiguousarray(loaded[name]).reshape(want.shape), want)
    if installed("torch"):
        tensors = Checkpoint(folder, "pt", backend=backend).load(**{**options, "out": None})
        assert all(sharded.same(tensors[name], a[4]) for name, a in asked.items())
