"""Many threads load, slice, save and prefetch at once, and every result has the bytes that were written.

With a GIL, the threads take turns and leave it while bytes move. A free-threaded Python runs them at once. The extension
must not turn the GIL on there.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS, FRAMEWORKS, at_once, run

import safetensors.numpy as stn
from safetensors import Checkpoint, SafetensorError, Writer, load, safe_open, save, stream

THREADS = 8
ROUNDS = 6
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

Arrays = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(autouse=True)
def short_turns() -> Iterator[None]:
    """Threads that share a GIL change often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(scope="module")
def arrays() -> Arrays:
    """Small and large tensors of several dtypes, also an empty one."""
    made: Arrays = {"empty": np.zeros((0, 3), np.float32), "large": np.arange(1 << 19, dtype=np.uint32).reshape(-1, 64)}
    for i, dtype in enumerate(("float32", "int16", "uint8", "float64", "bool") * 8):
        values = np.random.default_rng(i).integers(0, 2 if dtype == "bool" else 100, (i + 2, 5))
        made[f"t{i}"] = values.astype(dtype)
    return made


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, arrays: Arrays) -> Path:
    written = tmp_path_factory.mktemp("threads") / "t.safetensors"
    stn.save_file(arrays, written, metadata={"who": "threads"}, durability="none")
    return written


def same(found: Any, expected: Any) -> None:
    found = np.asarray(found)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


def same_all(found: Any, arrays: Arrays) -> None:
    assert found.keys() == arrays.keys()
    for name, expected in arrays.items():
        same(found[name], expected)


def shuffled(arrays: Arrays, number: int) -> list[str]:
    names = list(arrays)
    np.random.default_rng(number).shuffle(names)
    return names


def read_everything(f: Any, arrays: Arrays, number: int) -> None:
    """Use each method of a file, in an order that differs per number."""
    names = shuffled(arrays, number)
    for step in range(4):
        if (step + number) % 4 == 0:
            for name in names:
                same(f.get_tensor(name), arrays[name])
        elif (step + number) % 4 == 1:
            for name in names:
                same(f.get_slice(name)[..., ::2], arrays[name][..., ::2])
        elif (step + number) % 4 == 2:
            same_all(f.get_tensors(), arrays)
        else:
            same_all(dict(f.prefetch(threads=2)), arrays)
    assert f.keys() == sorted(arrays) and f.metadata() == {"who": "threads"}
    assert f.get_tensor_meta("large").shape == list(arrays["large"].shape)


@FRAMEWORKS
@BACKENDS
def test_one_handle_serves_many_threads(path: Path, arrays: Arrays, backend: str, kind: str) -> None:
    for _ in range(ROUNDS):  # a new handle each time: the first use makes the map
        with safe_open(path, kind, backend=backend) as f:
            at_once(lambda number, f=f: read_everything(f, arrays, number))  # type: ignore[misc]


def test_one_slice_serves_many_threads(path: Path, arrays: Arrays) -> None:
    with safe_open(path, "np") as f:
        large = f.get_slice("large")

    def work(number: int) -> None:
        for row in range(number, len(arrays["large"]), 97):
            same(large[row], arrays["large"][row])
            assert large.get_shape() == list(arrays["large"].shape) and "large" in repr(large)

    at_once(work)


@FRAMEWORKS
def test_one_loader_gives_each_tensor_to_one_thread(path: Path, arrays: Arrays, kind: str) -> None:
    for _ in range(ROUNDS):
        with safe_open(path, kind) as f, f.prefetch() as loader:
            items = iter(loader)
            seen: list[list[str]] = [[] for _ in range(THREADS)]

            def work(number: int, loader: Any = loader, items: Any = items, seen: Any = seen) -> None:
                for name in shuffled(arrays, number)[:5]:
                    try:
                        same(loader.take(name), arrays[name])
                        seen[number].append(name)
                    except SafetensorError as problem:
                        assert "already delivered" in str(problem)
                for name, found in items:
                    same(found, arrays[name])
                    seen[number].append(name)

            at_once(work)
            assert sorted(name for names in seen for name in names) == sorted(arrays)


def test_one_checkpoint_serves_many_threads(path: Path, arrays: Arrays) -> None:
    checkpoint = Checkpoint(path)

    def work(number: int) -> None:
        for _ in range(ROUNDS):
            same_all(checkpoint.load(), arrays)
            same_all(load(path, threads=2), arrays)
            same_all(dict(checkpoint.stream(threads=2)), arrays)
            same(checkpoint.get_slice("large")[2:4], arrays["large"][2:4])
            for name in shuffled(arrays, number):
                same(checkpoint[name], arrays[name])

    at_once(work)


def test_a_stream_gives_each_tensor_to_one_thread(path: Path, arrays: Arrays) -> None:
    for _ in range(ROUNDS):
        items = stream(path, memory_limit=1 << 20)
        seen: list[list[str]] = [[] for _ in range(THREADS)]

        def work(number: int, items: Any = items, seen: Any = seen) -> None:
            for name, found in items:
                same(found, arrays[name])
                seen[number].append(name)

        at_once(work)
        assert sorted(name for names in seen for name in names) == sorted(arrays)


def test_threads_save_files_of_their_own(path: Path, arrays: Arrays, tmp_path: Path) -> None:
    expected = path.read_bytes()

    def work(number: int) -> None:
        for _ in range(ROUNDS):
            own = tmp_path / f"{number}.safetensors"
            stn.save_file(arrays, own, metadata={"who": "threads"}, durability="none")
            assert own.read_bytes() == expected
            assert stn.save(arrays, metadata={"who": "threads"}) == expected
            save(arrays, tmp_path / f"model{number}", max_shard_size="1MB", durability="none")
            same_all(load(tmp_path / f"model{number}"), arrays)

    at_once(work)


def test_threads_write_to_one_writer(arrays: Arrays, tmp_path: Path) -> None:
    names = list(arrays)
    for _ in range(ROUNDS):
        with Writer(tmp_path / "w", arrays, durability="none") as writer:

            def work(number: int, writer: Any = writer) -> None:
                for name in names[number::THREADS]:
                    if name != "large":
                        writer.write(name, arrays[name])
                for row in range(number, len(arrays["large"]), THREADS):
                    writer.write("large", arrays["large"][row : row + 1], start=row)

            at_once(work)
        same_all(load(tmp_path / "w"), arrays)


@FRAMEWORKS
@BACKENDS
def test_one_thread_closes_what_others_read(path: Path, arrays: Arrays, backend: str, kind: str) -> None:
    """The others read right values, or are told that the file or the loader is closed."""
    for _ in range(ROUNDS):
        f = safe_open(path, kind, backend=backend)
        loader = f.prefetch()

        def work(number: int, f: Any = f, loader: Any = loader) -> None:
            if number == 0:
                f.__exit__(None, None, None)
                loader.close()
                return
            try:
                for name in shuffled(arrays, number):
                    same(f.get_tensor(name) if number % 2 else loader.take(name), arrays[name])
            except SafetensorError as problem:
                assert str(problem) == "File is closed" or str(problem).endswith(("prefetch loader closed", "via take or iteration)"))

        at_once(work)


def test_first_uses_of_the_package_at_once() -> None:
    """Every name of the package is imported on first use, here by many threads in a new process.

    Except collections.abc: Python 3.13.0 itself sometimes fails if two threads import it first.
    """
    program = """
import collections.abc, threading, safetensors
barrier, found, problems = threading.Barrier(8), [], []
def work(number):
  try:
    barrier.wait(); names = safetensors.__all__[number:] + safetensors.__all__[:number]
    found.append({name: getattr(safetensors, name) for name in names})
  except BaseException as problem: problems.append(problem)
threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert problems == [], problems
assert len(found) == 8 and all(one[name] is found[0][name] for one in found for name in one)
"""
    run(program)


@pytest.mark.skipif(not FREE_THREADED, reason="this Python always has its GIL")
def test_the_extension_leaves_the_gil_off() -> None:
    code = (
        "import sys; before = sys._is_gil_enabled()\n"
        "import safetensors._native, safetensors.numpy; print(before, sys._is_gil_enabled())"
    )
    assert run("import warnings; warnings.simplefilter('error')\n" + code) == "False False\n"
