"""The number of maps: a process may have only so many (vm.max_map_count), whatever number of tensors it keeps."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import framework, run, sparse

import safetensors.numpy
from safetensors import Checkpoint, load, safe_open, stream

MANY, LARGE = 5000, 1 << 20  # from LARGE on, NumPy gets views of a map
SOME, HUGE = 150, (2 << 20) + 4096  # from 2 MiB on, memory comes from the system
MAX_MAPS = 100  # for a way to load, with the stacks of its threads

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="counts the lines of /proc/self/maps"),
]


def maps() -> int:
    gc.collect()
    return len(Path("/proc/self/maps").read_bytes().splitlines())


def each_tensor(path: Path, **how: Any) -> list[Any]:
    with safe_open(path, **how) as f:
        return [f.get_tensor(name) for name in f.keys()]


def each_slice(path: Path, **how: Any) -> list[Any]:
    with safe_open(path, **how) as f:
        return [f.get_slice(name)[:] for name in f.keys()]


def each_item(path: Path, **how: Any) -> list[Any]:
    with Checkpoint(path, **how) as checkpoint:
        return [checkpoint[name] for name in checkpoint]


def prefetched(path: Path, **how: Any) -> list[Any]:
    with safe_open(path, **how) as f, f.prefetch() as loader:
        return list(loader)


def every_way() -> Iterator[Any]:
    for kind in ("np", "pt"):
        for backend in ("mmap", "pread", "auto"):
            for way in (each_tensor, each_slice, each_item, prefetched, load):
                yield pytest.param(way, {"framework": kind, "backend": backend}, id=f"{way.__name__}-{kind}-{backend}")
        yield pytest.param(lambda path, **how: list(stream(path, **how)), {"framework": kind}, id=f"stream-{kind}")
    yield pytest.param(safetensors.numpy.load_file, {}, id="load_file")


@pytest.mark.parametrize(("way", "how"), list(every_way()))
def test_kept_tensors_share_maps(way: Callable[..., Any], how: dict[str, Any], tmp_path: Path) -> None:
    framework("torch" if how.get("framework") == "pt" else "numpy")
    # Memory that tensors own takes space, so there are fewer of them.
    owned = way is prefetched or how.get("backend") != "mmap"
    path = sparse(tmp_path / "t", *([(HUGE,)] * SOME if owned else [(LARGE,)] * MANY))
    way(path, **how)  # the first call also makes what the process needs only once
    before = maps()
    kept = way(path, **how)
    assert maps() - before < MAX_MAPS and len(kept) in (MANY, SOME)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    values = np.arange(3 * LARGE // 4 + 33, dtype=np.uint32)
    safetensors.numpy.save_file({"a": values, "b": values + 1, "c": values + 2}, tmp_path / "t")
    return tmp_path / "t"


def test_calls_never_share_memory(path: Path) -> None:
    with safe_open(path, "np") as f:
        first = [f.get_tensor("b"), f.get_tensor("b"), f.get_slice("b")[:], f.get_slice("a")[5:], f.get_tensor("a")]
        for i, array in enumerate(first):
            for other in first[:i]:
                assert not np.shares_memory(array, other)
        first[0][:] = 7
        assert all((array[-4:] == f.get_tensor("b")[-4:]).all() for array in first[1:3])
        assert f.get_tensor("b")[0] == 1 and f.get_tensor("a")[0] == 0 == first[4][0]
    assert (first[0] == 7).all() and first[1][1] == 2


def test_neighbours_keep_their_changes_when_one_goes(path: Path) -> None:
    with safe_open(path, "np") as f:
        a, b, c = (f.get_tensor(name) for name in "abc")
        for array in (a, b, c):
            array += 100
        expected = np.arange(a.size, dtype=np.uint32) + 100
        del b, array
        gc.collect()
        assert (a == expected).all() and (c == expected + 2).all()
        assert (f.get_tensor("b") == expected - 99).all()


def test_the_changes_of_a_dropped_tensor_take_no_memory(path: Path) -> None:
    def dirty() -> int:
        text = Path("/proc/self/smaps").read_text().split(str(path))[1:]
        return sum(int(map_.split("Private_Dirty:")[1].split()[0]) for map_ in text)

    with safe_open(path, "np") as f:
        b = f.get_tensor("b")
        b += 1
        assert dirty() >= b.nbytes >> 10
        del b
        gc.collect()
        assert dirty() <= 16


FULL = """
import mmap, sys
import numpy as np
from safetensors import SafetensorError, safe_open
path, small, large = sys.argv[1:]
with safe_open(path, "np") as f:
    f.get_tensor(small).sum(), f.get_slice(small)[:2]
    kept = []
    try:
        while True:  # neighbours with other rights are maps of their own
            kept.append(mmap.mmap(-1, 8192, prot=mmap.PROT_READ if len(kept) % 2 else mmap.PROT_READ | mmap.PROT_WRITE))
    except OSError:
        pass
    print(int(f.get_tensor(small)[1]))
    try:
        f.get_tensor(large)
    except MemoryError as error:
        print(error)
    del kept
    print(int(f.get_tensor(large)[1]))
"""


def test_an_error_names_the_limit_of_maps(tmp_path: Path) -> None:
    if int(Path("/proc/sys/vm/max_map_count").read_text()) > 300_000:
        pytest.skip("this system allows more maps than a test can make")
    if "asan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("the address sanitizer ends a process that can make no map")
    values = {"small": np.arange(100), "large": np.arange(1 << 19)}
    safetensors.numpy.save_file(values, tmp_path / "t")
    size = values["large"].nbytes
    text = f"tensor `large`: cannot allocate {size} bytes: the process has as many maps as the system allows (vm.max_map_count)"
    assert run(FULL, tmp_path / "t", "small", "large") == f"1\n{text}\n1\n"
