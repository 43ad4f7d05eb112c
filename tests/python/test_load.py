"""load: many tensors at once, with keys, slices, dtype, out and the other arguments."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sharded
from conftest import FRAMEWORKS, framework, installed
from sharded import same

from safetensors import Checkpoint, CheckpointWriter, SafetensorError, load, save, stream

WANT = sharded.tensors()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sharded.save(tmp_path_factory.mktemp("folder"), WANT)


@FRAMEWORKS
@pytest.mark.parametrize("cache", ["auto", "keep", "fill"])
@pytest.mark.parametrize(("threads", "memory_limit"), [(0, 0), (1, 1), (5, 1 << 20), (1024, 2**64 - 1)])
def test_everything(folder: Path, kind: str, cache: str, threads: int, memory_limit: int) -> None:
    options: Any = {"cache": cache, "threads": threads, "memory_limit": memory_limit, "framework": kind}
    loaded, names = load(folder, slices={"wte": None}, **options), list(Checkpoint(folder))
    assert list(loaded) == list(load(folder, keys=names, **options)) == names
    assert all(same(array, WANT[name]) for name, array in loaded.items())


@FRAMEWORKS
def test_keys_are_the_order_of_the_result_and_count_once(folder: Path, kind: str) -> None:
    for keys in (["mask", "ids", "mask"], (k for k in ("mask", "ids")), {"mask": 1, "ids": 2}):
        assert list(load(folder, keys=keys, framework=kind)) == ["mask", "ids"]
    assert load(folder, keys=[], framework=kind) == {}
    for wrong in ("ids", b"ids"):
        with pytest.raises(TypeError, match="^keys is (str|bytes): give a list of names$"):
            load(folder, keys=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (10, "index 10 out of bounds for tensor dimension #0 of size 10"),
        ([1, 2], "found a list, expected slices and integers$"),
        ((slice(1), [0]), "found a list, expected slices and integers$"),
    ],
)
def test_slices_that_fail(folder: Path, index: Any, text: str) -> None:
    for call in (load, stream):
        with pytest.raises(SafetensorError, match=rf"slices\['wte'\]: .*{text}"):
            call(folder, slices={"wte": index})


def test_arguments_that_name_what_is_not_loaded(folder: Path) -> None:
    for what in ("slices", "dtype", "out"):
        given: Any = {what: {"wte": "F16" if what == "dtype" else np.zeros(1)}}
        with pytest.raises(SafetensorError, match=f"^{what} names a tensor that is not loaded: wte$"):
            load(folder, keys=["ids"], **given)
    for what in ("slices", "out"):
        for wrong in ([np.zeros(2)], np.zeros(2)):
            with pytest.raises(TypeError, match=f"^{what} is (list|ndarray): give a dict of names$"):
                load(folder, **{what: wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"threads": -1}, SafetensorError, "^threads is -1, expected 0 to 2\\^64-1$"),
        ({"threads": 1025}, SafetensorError, "^threads is 1025, expected at most 1024$"),
        ({"threads": 1.5}, TypeError, "'float' object cannot be interpreted as an integer"),
        ({"threads": None}, TypeError, "'NoneType' object cannot be interpreted as an integer"),
        ({"memory_limit": -5}, SafetensorError, "^memory_limit is -5, expected 0 to"),
        ({"memory_limit": 2**64}, SafetensorError, "^memory_limit is 18446744073709551616, expected"),
        ({"memory_limit": 1e9}, TypeError, "memory_limit is 1000000000.0: expected an int, or a text"),
        ({"cache": "no"}, SafetensorError, '^cache "no" is invalid .expected one of: "auto", "keep"'),
        ({"cache": None}, TypeError, "^argument 'cache': 'NoneType' object is not an instance"),
    ],
)
def test_options_that_are_none(folder: Path, options: Any, kind: type[Exception], text: str) -> None:
    for call in (load, stream):
        with pytest.raises(kind, match=text):
            call(folder, **options)


# --- out ---------------------------------------------------------------------------------------


def test_out_numpy(folder: Path) -> None:
    out = {
        "wte": np.zeros((10, 16), np.float32)[:, ::2],
        "bias": np.zeros(8, np.float16),
        "scale": np.zeros((), np.float64),
        "empty": np.zeros((0, 3), np.float32),
        "ids": np.zeros((6, 1, 1), np.int64)[:, 0, 0],
        "mask": np.zeros((2, 2), bool).T,
    }
    for call in (load, lambda *a, **k: dict(stream(*a, **k))):
        for array in out.values():
            array[...] = 0
        loaded = call(folder, out=out)
        assert all(loaded[name] is array for name, array in out.items())
        assert all((array == WANT[name]).all() for name, array in out.items())


def test_out_twice_the_same_memory(tmp_path: Path) -> None:
    sharded.save(tmp_path, {"a": np.ones(4), "b": np.ones(4)}, 1)
    memory = np.zeros(7)
    with pytest.raises(ValueError, match="^tensor `b`: its destination overlaps that of tensor `a`$"):
        load(tmp_path, out={"a": memory[:4], "b": memory[3:]})


def test_out_torch(folder: Path) -> None:
    torch = framework("torch")
    out = {
        "wte": torch.zeros(8, 10).T,
        "bias": torch.nn.Parameter(torch.zeros(8, dtype=torch.float16)),
        "scale": torch.zeros((), dtype=torch.float64),
        "empty": torch.zeros(0, 3),
        "ids": np.zeros(6, np.int64),
    }
    loaded = load(folder, framework="pt", out=out)
    assert all(loaded[name] is array for name, array in out.items())
    assert all(same(array if name == "ids" else array.detach(), WANT[name]) for name, array in out.items())
    assert type(loaded["mask"]) is torch.Tensor


def test_out_that_cannot_be_read_into(folder: Path) -> None:
    def array(*shape: int) -> Any:
        return np.zeros(shape, np.float32)

    wrong: list[tuple[Any, type[Exception], str]] = [
        (array(8, 10), ValueError, r"has shape \(8, 10\), the result \(10, 8\)$"),
        (np.zeros((10, 8)), ValueError, "has dtype F64, the result F32$"),
        (array(10, 8)[::-1], ValueError, "has a negative stride$"),
        (np.broadcast_to(array(8), (10, 8)), ValueError, "is read-only$"),
        (np.zeros((10, 8), ">f4"), ValueError, "is big-endian, files are little-endian$"),
        (np.zeros((10, 8), object), ValueError, "has dtype object, which no file holds$"),
        (np.ma.zeros((10, 8), np.float32), ValueError, "is a masked array: give its data$"),
        (np.lib.stride_tricks.as_strided(array(80), (10, 8), (0, 4)), ValueError, "share memory"),
        (np.lib.stride_tricks.as_strided(array(80), (10, 8), (4, 4)), ValueError, "share memory"),
        ([0.0] * 80, TypeError, "is list: numpy arrays and torch tensors can be read into$"),
        (None, TypeError, "is NoneType: numpy arrays and torch tensors can be read into$"),
    ]
    if installed("torch"):
        import torch

        wrong += [
            (torch.zeros(8).expand(10, 8), ValueError, r"share memory \(was it expanded\?\): copy it first$"),
            (torch.zeros(10, 8, device="meta"), ValueError, "is on meta: only cpu can be read into$"),
            (torch.zeros(10, 8).to_sparse(), ValueError, "is torch.sparse_coo: only torch.strided"),
            (torch.zeros(10, 8, requires_grad=True) * 2, ValueError, "is part of a graph: detach it"),
            (torch.zeros(10, 8, dtype=torch.complex64).conj().imag, ValueError, "negated view"),
        ]
    for target, kind, text in wrong:
        with pytest.raises(kind, match=r"^out\['wte'\] " + ".*" + text):
            load(folder, out={"wte": target})


# --- progress ----------------------------------------------------------------------------------


def ended(path: Path, **options: Any) -> None:
    with stream(path, **options):
        pass


def streamed(path: Path, **options: Any) -> dict[str, Any]:
    return dict(stream(path, **options))


@pytest.mark.parametrize("call", [load, streamed])
def test_progress_is_told_up_to_the_end_and_may_raise(folder: Path, call: Any) -> None:
    told: list[tuple[int, int]] = []
    call(folder, progress=lambda done, total: told.append((done, total)))
    size = sum(array.nbytes for array in WANT.values())
    assert told and told[-1] == (size, size) and told == sorted(told) and {total for _, total in told} == {size}

    def fail(done: int, total: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        call(folder, progress=fail)
    with pytest.raises(TypeError, match="^progress is int: give a bool or a function$"):
        call(folder, progress=1)
    for off in (None, False):
        assert len(call(folder, progress=off)) == len(WANT)


def test_progress_may_load_itself(folder: Path) -> None:
    checkpoint = Checkpoint(folder)
    inner: list[Any] = []
    checkpoint.load(progress=lambda *_: inner.append(checkpoint.load(["ids"])))
    assert inner and same(inner[-1]["ids"], WANT["ids"])


def test_bars_are_closed(folder: Path, tmp_path: Path, bars: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Bad:
        def __bool__(self) -> bool:
            raise ZeroDivisionError

    size = sum(array.nbytes for array in WANT.values())
    whole, begun, saving = f"Loading: {size} of {size}", "Loading: 0 of None", "Saving: 0 of None"
    nowhere, calls = tmp_path / "no" / "model", []
    calls += [(load, (folder,), {}, whole), (streamed, (folder,), {}, whole), (ended, (folder,), {}, begun)]
    calls += [(stream, (folder,), {"threads": -1}, begun), (CheckpointWriter, (nowhere, WANT), {}, saving)]
    calls += [(CheckpointWriter, (tmp_path, WANT), {"durability": "x"}, saving), (CheckpointWriter, (tmp_path, WANT), {"new_folder": Bad()}, None)]
    calls += [(save, (WANT, path), {}, saving) for path in (nowhere, nowhere / "a.safetensors")]
    for call, arguments, options, expected in calls:
        bars.clear()
        with contextlib.suppress(SafetensorError, ZeroDivisionError):
            call(*arguments, progress=True, **options)
        assert bars == [expected] * (expected is not None), (call, options)
    for path in ("a.safetensors", "folder"):
        save(WANT, tmp_path / path, progress=True)
        verb, done, _, total = bars[-1].split()
        assert verb == "Saving:" and int(done) == int(total) > size
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert len(load(folder, progress=True)) == len(WANT)


def tensors_of_torch() -> int:
    import torch

    gc.collect()
    return sum(issubclass(type(value), torch.Tensor) for value in gc.get_objects())


@pytest.mark.parametrize("threads", [1, 4])
def test_failed_read_leaves_no_tensor(tmp_path: Path, threads: int) -> None:
    framework("torch")
    path = tmp_path / "t.safetensors"
    # Each dtype is made in one of two ways: while the bytes are read, or afterwards.
    kinds = [np.float32, np.uint32]
    save({f"{i:02}": np.full(1 << 16, i, kinds[i % 2]) for i in range(40)}, path)
    before = tensors_of_torch()
    with Checkpoint(path, "pt") as checkpoint:
        os.truncate(path, path.stat().st_size - 8)
        with pytest.raises(SafetensorError, match="^tensor `[0-9]+`: file became shorter: "):
            checkpoint.load(threads=threads)
    assert tensors_of_torch() == before


def test_array_that_cannot_be_made_ends_the_read(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make('{"a":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}}', bytes(8))
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with Checkpoint(path) as checkpoint:
        os.truncate(path, path.stat().st_size - 1)
        # The array comes before the bytes, so its error does, too.
        with pytest.raises(SafetensorError, match="^NumPy has no bfloat16"):
            checkpoint.load()
