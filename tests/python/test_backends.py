"""The backend that the file system or SAFETENSORS_BACKEND chooses. Files on a real FUSE file system fail and shrink."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import slow_files
from conftest import framework

import safetensors.numpy as stn
from safetensors import Checkpoint, SafetensorError, _safe_open_handle, safe_open

np = framework("numpy")

LARGE = 300_000  # elements of float64: more than a window of requests
SMALL = 400  # number of small tensors


def tensors() -> dict[str, Any]:
    many = {f"small.{i:03}": np.arange(4096, dtype=np.float32) + i for i in range(SMALL)}
    return {"large": np.arange(LARGE, dtype=np.float64).reshape(3000, 100), **many}


def mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SAFETENSORS_BACKEND", raising=False)


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "local.safetensors"
    stn.save_file(tensors(), path)
    return path


@pytest.fixture(params=[True])
def slow(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[slow_files.Mounted]:
    """A mounted FUSE file system with the file "t". The parameter says whether the kernel caches the bytes of the file."""
    source, mounted = slow_files.folders(tmp_path, "source", "mounted")
    stn.save_file(tensors(), source / "t")
    with slow_files.mounted(source, mounted, cached=request.param) as files:
        yield files


# Tests of failures mount without the page cache: it can hold bytes that the server would refuse, or that the file no longer has.
uncached = pytest.mark.parametrize("slow", [False], indirect=True, ids=["uncached"])


# Which backend is chosen


@pytest.mark.parametrize(
    ("variable", "argument", "maps"),
    [
        (None, {}, True), ("", {}, True), ("pread", {}, False), ("auto", {}, False), ("pread", {"backend": "mmap"}, False),
        ("mmap", {"backend": "pread"}, False), ("mmap", {"backend": "auto"}, False),
    ],
)  # fmt: skip
def test_variable_replaces_the_default(
    local: Path, variable: str | None, argument: Any, maps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable is read at each call. backend="mmap" is the default, so it counts as no argument."""

    def opened() -> list[Any]:
        with safe_open(local, "np", **argument) as f, open(local, "rb") as file:
            return [f.get_tensor("large"), _safe_open_handle(file, "np", **argument).get_tensor("large")]

    expected = tensors()["large"]
    assert not mapped(local)
    if variable is not None:
        monkeypatch.setenv("SAFETENSORS_BACKEND", variable)
    for way in (lambda: [stn.load_file(local, **argument)["large"]], opened):
        kept = way()
        assert mapped(local) == maps and all(np.array_equal(array, expected) for array in kept)
        del kept
    kept = [Checkpoint(local)["large"]]  # which ignores it
    assert not mapped(local) and np.array_equal(kept[0], expected)


def test_unknown_word_in_the_variable(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAFETENSORS_BACKEND", "MMAP")
    text = (
        "^environment variable SAFETENSORS_BACKEND: backend \"MMAP\" is invalid "
        r'\(expected one of: "mmap", "pread", "auto"\)$'
    )
    for call in (lambda: stn.load_file(local), lambda: safe_open(local, "np")):
        with pytest.raises(SafetensorError, match=text):
            call()
    assert len(stn.load_file(local, backend="pread")) == SMALL + 1


def test_iteration_over_a_torch_slice_ends(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    framework("torch")
    monkeypatch.setenv("SAFETENSORS_BACKEND", "pread")
    with safe_open(local, "pt") as f:
        assert len(list(f.get_slice("small.007"))) == 4096


# On a FUSE file system


def test_fuse_files_are_read(slow: slow_files.Mounted) -> None:
    path = slow.path / "t"
    expected = tensors()
    loaded = stn.load_file(path)
    with safe_open(path, "np") as f, open(path, "rb") as opened, f.prefetch() as prefetched:
        assert "backend='pread'" in repr(f)
        kept = [f.get_tensor("large"), f.get_slice("large")[1:], f.get_tensors(), dict(prefetched)]
        kept.append(_safe_open_handle(opened, "np").get_tensor("large"))
        assert not mapped(path)
        assert np.array_equal(kept[0], expected["large"]) and np.array_equal(kept[1], expected["large"][1:])
    for name, array in expected.items():
        assert np.array_equal(loaded[name], array) and np.array_equal(kept[2][name], array)
        assert np.array_equal(kept[3][name], array)
    loaded["large"][:] = 0  # its own memory
    assert np.array_equal(stn.load_file(path)["large"], expected["large"])


def test_small_slices_share_requests(slow: slow_files.Mounted) -> None:
    """A window of the file is requested for small reads with gaps between them, not each read by itself."""
    with safe_open(slow.path / "t", "np") as f:
        slow.counts()
        for i in range(SMALL):
            assert f.get_slice(f"small.{i:03}")[:100].sum() == sum(range(100)) + 100 * i
        counts = slow.counts()
    assert counts["read"] < SMALL / 4 and counts["bytes"] < 2 * SMALL * 4096 * 4


@uncached
def test_without_page_cache_no_byte_is_requested_twice(slow: slow_files.Mounted) -> None:
    loaded = stn.load_file(slow.path / "t")
    counts = slow.counts()
    assert all(np.array_equal(loaded[name], array) for name, array in tensors().items())
    assert counts["bytes"] < (slow.source / "t").stat().st_size + 100_000


CALLS = {  # `f` is the open file
    "load_file": "stn.load_file(path)['large'].sum()",
    "get_tensor": "f.get_tensor('large').sum()",
    "get_slice": "f.get_slice('large')[1000:].sum()",
    "get_tensors": "f.get_tensors()['large'].sum()",
    "prefetch": "f.prefetch().take('large').sum()",
    "Checkpoint": "Checkpoint(path)['large'].sum()",
}

PROGRAM = """
import sys
import safetensors.numpy as stn
from safetensors import Checkpoint, safe_open
path, code = sys.argv[1:]
f = safe_open(path, "np")  # the header can be read
print("ready", flush=True)
sys.stdin.readline()
try:
    eval(code)
except Exception as error:
    print(type(error).__name__, getattr(error, "errno", None), getattr(error, "code", None), error)
"""


def run_while(path: Path, code: str, disturb: Any, **variables: str) -> tuple[int, str]:
    """Runs the code in a process that has opened the file before disturb() is called. Returns its status and output."""
    environment = {**os.environ, **variables}
    command = [sys.executable, "-c", PROGRAM, str(path), code]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=environment) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        disturb()
        output = process.communicate("go\n")[0]
    return process.returncode, output


@uncached
@pytest.mark.parametrize("call", CALLS)
def test_read_errors_of_a_server_are_exceptions(call: str, slow: slow_files.Mounted) -> None:
    status, output = run_while(slow.path / "t", CALLS[call], lambda: slow.fail_from(1 << 20))
    assert status == 0
    if call == "prefetch":
        assert output.startswith("SafetensorError 5 read_failed ")
    else:
        assert output.startswith("OSError 5 None [Errno 5] Input/output error") and str(slow.path / "t") in output


@uncached
@pytest.mark.parametrize("call", [name for name, code in CALLS.items() if code.startswith("f.")])
def test_truncated_files_are_exceptions(call: str, slow: slow_files.Mounted) -> None:
    status, output = run_while(slow.path / "t", CALLS[call], lambda: os.truncate(slow.source / "t", 1 << 20))
    assert status == 0 and output.startswith("SafetensorError None file_truncated ") and ("tensor `" if call == "get_tensors" else "large") in output
