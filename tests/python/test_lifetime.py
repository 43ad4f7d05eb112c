"""The lifetime of objects: leaks, order of deletion, threads, forks, processes."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import BACKENDS, FRAMEWORKS, framework, run

import safetensors.numpy as stn
from safetensors import Checkpoint, SafetensorError, _native, safe_open

pytestmark = pytest.mark.slow


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "t"
    stn.save_file({"large": np.arange(1 << 18, dtype=np.float64), "small": np.arange(4)}, target, {"k": "v"})
    return target


LEAKS = """
import gc, os, sys, weakref
import numpy as np
import safetensors, safetensors.numpy as stn
from safetensors import Checkpoint, SafetensorError, TensorSpec, Writer, _native, safe_open
_native._set_leak_warnings(True)
path, kind = sys.argv[1:]
kept = []
def fail(*_): raise ZeroDivisionError
def attempt(*calls):
    global last
    for call in calls:
        try: call()
        except Exception as error: last = error
for backend in ("mmap", "pread", "auto"):
    for _ in range(3):
        with safe_open(path, kind, backend=backend) as f:
            f.keys(); f.offset_keys(); f.metadata(); len(f); list(f)
            kept += [f.get_tensor("large"), f.get_slice("small"), f.get_slice("large")[2:], f.get_tensors(), f.get_tensor_meta("small")]
            p = f.prefetch()
            kept += [p, p.take("small"), iter(p), next(iter(p)), next(iter(f.prefetch({"large": slice(1, 2)})))]
            attempt(lambda: f.get_tensor("zz"), lambda: f.get_tensor(3), lambda: f.get_slice("small")[9], lambda: f.get_slice("small")[None],
                    lambda: f.prefetch({"small": 3}), lambda: f.prefetch([]), lambda: p.take("zz"), lambda: f.prefetch(threads=-1),
                    lambda: f.prefetch({"small": slice(9)}), lambda: f.prefetch(device="nope"), lambda: f.get_tensor_meta("zz"))
            with f.prefetch() as p: p.take("small")
            attempt(lambda: p.take("small"))
            if kind == "pt":
                p = f.prefetch()
                taken = p.take("large")
                taken.loader, taken.stream = p, iter(p)
                watched = weakref.ref(taken)
                del p, taken
                assert watched() is None
                kept.append(f.get_slice("small")[[0, 1]])
    kept.append(stn.load_file(path, backend=backend))
attempt(lambda: safe_open("/nope", kind), lambda: safe_open(path, "xx"), lambda: TensorSpec(1), lambda: Checkpoint("/nope"), lambda: Checkpoint([3]),
        lambda: TensorSpec(dtype="x", shape=[1], data_ptr=0, data_len=0))
for _ in range(3):
    checkpoint = Checkpoint(path, kind)
    kept += [checkpoint, checkpoint["large"], checkpoint.get_slice("large"), checkpoint.load(dtype="F32")]
    with checkpoint.stream() as items: kept.append(next(items))
    kept += [items, checkpoint.stream(), checkpoint.load(out={"small": np.zeros(4, np.int64)}, progress=lambda *_: None)]
    attempt(lambda: checkpoint["zz"], lambda: checkpoint.load(progress=fail), lambda: checkpoint.load(threads=-1), lambda: checkpoint[3],
            lambda: checkpoint.load(slices={"small": 99}), lambda: checkpoint.stream(out={"small": np.zeros(3)}))
    with Writer(path + ".new", {"a": ("F32", (2,)), "b": checkpoint["small"]}) as writer:
        writer.write("a", np.zeros(2, np.float32))
        writer.copy("b", checkpoint, "small")
    kept += [writer, Writer(path + ".never", {})]
    with Checkpoint(path, kind) as cut:
        os.truncate(path, os.path.getsize(path) - 8)
        attempt(cut.load)
        assert "became shorter" in str(last)
        with open(path, "ab") as opened: opened.write(bytes(8))
    data = stn.save({"a": np.arange(3)}, {"k": "v"})
    kept += [stn.load(data), stn.load(bytearray(data), copy=False), safetensors.deserialize(data)]
    stn.save_file({"a": np.arange(3)}, path + ".new", durability="none")
    with open(path, "rb") as opened: kept.append(safetensors._safe_open_handle(opened, kind))
    if kind == "pt":
        import torch, safetensors.torch as stt
        class Remote(torch.Tensor):  # plays a tensor on a device
            is_cpu = False
            def to(self, device): return self.as_subclass(torch.Tensor).clone()
        kept += [stt.load_file(path), stt.load(stt.save({"a": torch.ones(2)})), stt.load(stt.save({"a": torch.ones(2)}), copy=False)]
        stt.save_file({"a": torch.ones(2).as_subclass(Remote)}, path + ".new", durability="none")
f = p = items = writer = checkpoint = cut = None
"""


@pytest.mark.parametrize("order", ["kept.clear()", "kept.reverse(); kept.clear(); gc.collect()", ""])
@FRAMEWORKS
def test_nothing_leaks(path: Path, order: str, kind: str) -> None:
    run(LEAKS + order, path, kind)  # nanobind would tell of leaks on stderr
    assert sorted(os.listdir(path.parent)) == ["t", "t.new"]


def resident() -> int:
    if not Path("/proc/self/statm").exists():
        pytest.skip("this system does not tell what a process holds")
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_and_files_are_given_back(path: Path) -> None:
    def maps() -> int:
        return Path("/proc/self/maps").read_text().count(str(path))

    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    resident()  # skips
    stn.save_file({"large": np.ones(1 << 19), "small": np.arange(4)}, path, durability="none")
    files_before, threads_before = len(os.listdir("/proc/self/fd")), threads()
    for backend in ("mmap", "pread", "auto"):
        for i in range(40):
            with safe_open(path, "np", backend=backend) as f:
                f.get_tensor("large")[:] = 1
                stn.load_file(path, backend=backend)["large"][:] = 1
                p = f.prefetch()
            if i % 4 == 0:
                p.take("large")[0] = 2
            if i % 4 == 1:
                dict(p)
            if i % 4 == 2:
                p.close()
            del p
            if i == 4:
                before = resident()
        gc.collect()
        assert maps() == 0
        assert resident() - before < 24 << 20  # 105 loads of 4 MiB
    assert len(os.listdir("/proc/self/fd")) == files_before
    while threads() > threads_before:  # A joined thread may still be listed. One that leaked is listed forever.
        time.sleep(0.01)


@FRAMEWORKS
def test_a_buffer_is_held_as_long_as_views_of_it_and_no_longer(kind: str) -> None:
    # A bytearray that is exported cannot be resized.
    buffer = bytearray(stn.save({"a": np.arange(4.0), "b": np.arange(6)}))
    before = sys.getrefcount(buffer)
    loaded = _native._load(buffer, kind, copy=False)
    part = loaded["b"][2:]
    loaded["a"][0] = 7.0
    del loaded
    gc.collect()
    with pytest.raises(BufferError):
        buffer.append(0)
    assert part.tolist() == [2, 3, 4, 5]
    del part
    gc.collect()
    buffer.append(0)
    assert sys.getrefcount(buffer) == before
    with pytest.raises(SafetensorError):
        _native._load(buffer, kind, copy=False)  # one byte too many
    buffer.pop()
    copied = _native._load(buffer, kind)
    buffer.clear()
    assert copied["a"].tolist() == [7.0, 1.0, 2.0, 3.0]


@BACKENDS
def test_a_weakref_to_a_tensor_dies_with_it(path: Path, backend: str) -> None:
    framework("torch")
    with safe_open(path, "pt", backend=backend) as f:
        tensor, part = f.get_tensor("large"), f.get_slice("large")[3:6]
        everything = f.get_tensors()
    watched = [weakref.ref(t) for t in (tensor, part, everything["large"])]
    assert all(reference() is not None for reference in watched)
    storage = tensor.untyped_storage()
    del tensor, everything
    gc.collect()
    assert watched[0]() is None and watched[2]() is None and watched[1]() is part
    path.unlink()
    assert bytes(storage[80:88]) == np.float64(10).tobytes() and part.tolist() == [3, 4, 5]


@BACKENDS
def test_a_child_reads_what_its_parent_read_with_several_threads(tmp_path: Path, backend: str) -> None:
    big = np.arange(6 << 20, dtype=np.float64)  # 48 MiB
    stn.save_file({"big": big, "more": big}, tmp_path / "big", durability="none")
    checkpoint = Checkpoint(tmp_path / "big", framework="np", backend=backend)
    with safe_open(tmp_path / "big", "np", backend=backend) as f:
        assert (f.get_tensor("big") == big).all() and (checkpoint.load(threads=2)["big"] == big).all()
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # a child that waits for threads which it does not have is killed
            good = (f.get_tensor("more") == big).all() and (f.get_tensors()["big"] == big).all()
            good = good and (checkpoint.load(threads=2)["more"] == big).all()
            stn.save_file({"big": big}, tmp_path / "child", durability="none")
            os._exit(0 if good else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert (stn.load_file(tmp_path / "child")["big"] == big).all()


class Rows:
    """A dataset as a DataLoader takes it: opened before the workers start, or by each of them."""

    def __init__(self, path: str, backend: str, early: bool) -> None:
        self.path, self.backend = path, backend
        self.file: Any = self.open() if early else None

    def open(self) -> Any:
        return Checkpoint(self.path, "pt") if self.backend == "checkpoint" else safe_open(self.path, "pt", backend=self.backend)

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        self.file = self.file or self.open()
        return self.file.get_slice("rows")[index]


# A Checkpoint may be pickled.
WORKERS = [(method, early, backend) for backend in ("mmap", "pread", "auto") for method, early in (("fork", True), ("fork", False), ("spawn", False))]
WORKERS += [(method, True, "checkpoint") for method in ("fork", "spawn", "forkserver")]


@pytest.mark.parametrize(("method", "early", "backend"), WORKERS)
def test_a_data_loader(tmp_path: Path, backend: str, method: str, early: bool) -> None:
    torch = framework("torch")
    stn.save_file({"rows": np.arange(640.0).reshape(64, 10)}, tmp_path / "rows")
    data = Rows(str(tmp_path / "rows"), backend, early)
    loader = torch.utils.data.DataLoader(data, batch_size=16, num_workers=2, multiprocessing_context=method)
    assert not early or data[3].tolist() == list(range(30, 40))  # the parent has used it, too
    assert torch.equal(torch.cat(list(loader)), torch.arange(640.0, dtype=torch.float64).reshape(64, 10))


@BACKENDS
def test_a_default_device_of_torch_does_not_touch_what_is_loaded(tmp_path: Path, backend: str) -> None:
    torch, stt = framework("torch"), framework("safetensors.torch")
    kinds = [torch.bool, torch.uint16, torch.float8_e4m3fn, torch.float32]
    saved = {str(kind): torch.ones(2, 2).to(kind) for kind in kinds}
    stt.save_file({**saved, "empty": torch.zeros(0, 3)}, tmp_path / "t")
    with torch.device("meta"):
        loaded = stt.load_file(tmp_path / "t", backend=backend)
        with safe_open(tmp_path / "t", "pt", backend=backend) as f:
            loaded["part"] = f.get_slice("torch.float32")[1:]
        copied = stt.load((tmp_path / "t").read_bytes())
    assert {t.device.type for t in (*loaded.values(), *copied.values())} == {"cpu"}
    assert all(torch.equal(loaded[n].to(torch.float32), t.to(torch.float32)) for n, t in saved.items())


HEAD = """
import builtins, sys, threading
import safetensors.numpy as stn
from safetensors import load, safe_open, stream
path = sys.argv[1]
f = safe_open(path, "np")
class Holder: pass
"""
THREADS = """
rounds = threading.Semaphore(0)
def work():
    while True:
        WORK
        rounds.release()
for _ in range(3): threading.Thread(target=work, daemon=True).start()
for _ in range(6): assert rounds.acquire(timeout=200)
"""
SAVES = """
        for backend in ("mmap", "pread", "auto"):
            with safe_open(path, "np", backend=backend) as g: g.get_tensors(), g.get_tensor("t1"), g.get_slice("t1")[3:]
        stn.save_file({}, path + ".new", durability="none")
"""
AT_EXIT = {
    "a stream that still reads": "items = stream(path, memory_limit=1 << 20); next(items)",
    "a stream in a cycle": "holder = Holder(); holder.me = holder; holder.items = stream(path, memory_limit=1 << 20); next(holder.items)",
    "a loader that still reads": "p = f.prefetch(); items = iter(p); next(items)",
    "a loader in a cycle": "p = f.prefetch(); kept = [p]; kept.append(kept); del p",
    "a loader of the builtins": "builtins.kept = f.prefetch(), iter(f.prefetch())",
    "threads with files": THREADS.replace("WORK", SAVES),
    "daemons with loaders": THREADS.replace("WORK", "dict(f.prefetch())"),
    "threads with callbacks": THREADS.replace("WORK", "load(path, progress=lambda done, total: sum(range(1000)))"),
    "threads with streams": THREADS.replace("WORK", "for _ in stream(path, memory_limit=1 << 20): rounds.release()"),
}


@pytest.mark.parametrize("what", AT_EXIT)
def test_the_end_of_the_program(tmp_path: Path, what: str) -> None:
    if sys.version_info >= (3, 14) and "Thread" in AT_EXIT[what]:  # 3.14: PyEval_RestoreThread does not return
        pytest.skip("threads that ask for the GIL of an interpreter that ends hang by themselves")
    stn.save_file({f"t{i}": np.full(1 << 18, i, np.float32) for i in range(64)}, tmp_path / "t", durability="none")
    for _ in range(4):
        run(HEAD + AT_EXIT[what], tmp_path / "t")
