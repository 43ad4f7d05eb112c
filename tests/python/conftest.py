"""Fixtures and helpers for all tests of the Python package."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import os
import re
import struct
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import safetensors


def pytest_report_header() -> str:
    return f"safetensors {safetensors.__version__} from {Path(safetensors.__file__).parent}"


def pytest_sessionstart(session: pytest.Session) -> None:
    # With SAFETENSORS_TEST_REFERENCE=1, the tests run with the package of the reference, to show the differences.
    if os.environ.get("SAFETENSORS_TEST_REFERENCE") != "1" and "cpp" not in safetensors.__version__:
        pytest.exit(f"these are tests of our package, found {safetensors.__version__}", 3)
    native = getattr(safetensors, "_native", None)
    if native is not None:
        native._set_leak_warnings(True)  # scripts/check-python fails on them


@pytest.fixture(scope="session")
def reference() -> str:
    """The interpreter of an environment that holds the package of the reference."""
    python = os.environ.get("SAFETENSORS_REFERENCE_PYTHON")
    if not python:
        pytest.skip("SAFETENSORS_REFERENCE_PYTHON names no interpreter with the reference package")
    code = "import safetensors; print(safetensors.__version__)"  # isolated: PYTHONPATH may lead to our package
    version = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert version and "cpp" not in version, f"{python} has our package, {version}, not that of the reference"
    return python


def file_bytes(header: str | bytes, data: bytes = b"") -> bytes:
    """Returns the bytes of a file with this header, without padding."""
    text = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(text)) + text + data


def sparse(path: Path, *shapes: tuple[int, ...]) -> Path:
    """Writes a file of zeros, which takes no space: tensors t0, t1, ... of U8."""
    header, end = {}, 0
    for i, shape in enumerate(shapes):
        begin, end = end, end + math.prod(shape)
        header[f"t{i}"] = {"dtype": "U8", "shape": shape, "data_offsets": [begin, end]}
    path.write_bytes(file_bytes(json.dumps(header)))
    try:
        os.truncate(path, path.stat().st_size + end)
    except OSError as error:
        pytest.skip(f"no sparse file of {end} bytes here: {error}")
    return path


@pytest.fixture
def make(tmp_path: Path) -> Any:
    """make(header, data) writes a file and returns its path."""

    def write(header: str | bytes, data: bytes = b"", name: str = "t.safetensors") -> Path:
        path = tmp_path / name
        path.write_bytes(file_bytes(header, data))
        return path

    return write


def elsewhere(tensor: Any) -> Any:
    """A torch tensor that plays one of another device: whoever needs its bytes must copy it to the host."""
    import torch

    class Remote(torch.Tensor):  # type: ignore[misc]
        is_cpu = False

        def to(self, device: str) -> Any:
            assert device == "cpu"
            return self.as_subclass(torch.Tensor).clone()

    return tensor.as_subclass(Remote)


def text_about(path: Path, pattern: str) -> str:
    """The pattern of a checkpoint's error. Before Python 3.11, exceptions have no notes, so the text holds the path."""
    return f"^{pattern}" if sys.version_info >= (3, 11) else f"^{re.escape(str(path))}: {pattern}"


REQUIRED = [f for f in os.environ.get("SAFETENSORS_TEST_FRAMEWORKS", "").split(",") if f]


def installed(name: str) -> bool:
    """Returns whether tests of this framework run: it is installed, or SAFETENSORS_TEST_FRAMEWORKS names it."""
    return name in REQUIRED or importlib.util.find_spec(name.partition(".")[0]) is not None


FRAMEWORKS = pytest.mark.parametrize("kind", ["np", pytest.param("pt", marks=pytest.mark.skipif(not installed("torch"), reason="torch is not here"))])
BACKENDS = pytest.mark.parametrize("backend", ["mmap", "pread", "auto"])


def raises(kind: type[BaseException], text: str) -> Any:
    """Expects an exception with exactly this text."""
    return pytest.raises(kind, match="^" + re.escape(text) + "$")


def framework(name: str) -> Any:
    """Imports a module. If it is missing, skips the test, or fails if SAFETENSORS_TEST_FRAMEWORKS names the module."""
    return importlib.import_module(name) if name in REQUIRED else pytest.importorskip(name)


def run(code: str, *arguments: object, **options: Any) -> str:
    """Runs a program in a new process. It must succeed and write nothing to stderr. Returns its output."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, **{"timeout": 300, **options})
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def at_once(work: Callable[[int], object], count: int = 8) -> None:
    """Calls work(0), work(1), ... in threads that start together. Raises the first exception of any of them."""
    barrier = threading.Barrier(count)
    problems: list[BaseException] = []

    def run(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as problem:  # noqa: BLE001
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Plays tqdm. Lists the bars that were closed, each as "verb: done of total"."""
    closed: list[str] = []

    class Bar:
        def __init__(self, *, desc: str, unit: str, **options: Any) -> None:
            self.desc, self.n, self.total = desc, 0, None
            assert unit == "B"

        def update(self, count: int) -> None:
            self.n += count

        def close(self) -> None:
            closed.append(f"{self.desc}: {self.n} of {self.total}")

    played: Any = types.ModuleType("tqdm.auto")
    played.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", played)
    return closed
