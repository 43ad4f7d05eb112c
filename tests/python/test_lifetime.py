"""The lifetime of objects: leaks, order of deletion, threads, forks, processes."""

from __future__ import annotations

import gc
import os
import signal
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import installed, run

import safetensors.numpy as stn
from safetensors import Checkpoint, SafetensorError, _native, safe_open

pytestmark = pytest.mark.slow
BACKENDS = pytest.mark.parametrize("backend", ["mmap", "pread", "auto"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "t"
    stn.save_file({"large": np.arange(1 << 18, dtype=np.float64), "small": np.arange(4)}, target, {"k": "v"})
    return target


EVERYTHING = """
import gc, os, sys, threading
import numpy as np
import safetensors, safetensors.numpy as stn
from safetensors import safe_open, SafetensorError, TensorSpec, _native
_native._set_leak_warnings(True)
path = sys.argv[1]
kept = []
for backend in ("mmap", "pread", "auto"):
    for _ in range(3):
        with safe_open(path, "np", backend=backend) as f:
            f.keys(); f.offset_keys(); f.metadata(); len(f); list(f)
            kept += [f.get_tensor("large"), f.get_slice("small"), f.get_slice("large")[2:], f.get_tensors()]
            for wrong in (lambda: f.get_tensor("zz"), lambda: f.get_tensor(3), lambda: f.get_slice("small")[9],
                          lambda: f.get_slice("small")[None], lambda: safe_open("/nope", "np"), lambda: safe_open(path, "xx"),
                          lambda: TensorSpec(dtype="x", shape=[1], data_ptr=0, data_len=0), lambda: TensorSpec(1)):
                try: wrong()
                except Exception as error: last = error
        stn.load_file(path, backend=backend)
    kept.append(safetensors.load(path))
    with safetensors.Checkpoint(path) as checkpoint:
        os.truncate(path, os.path.getsize(path) - 8)
        try: checkpoint.load()
        except SafetensorError as error: assert "became shorter" in str(error)
        with open(path, "ab") as opened: opened.write(bytes(8))
    data = stn.save({"a": np.arange(3)}, {"k": "v"})
    kept += [stn.load(data), stn.load(bytearray(data), copy=False), safetensors.deserialize(data)]
    stn.save_file({"a": np.arange(3)}, path + ".again", durability="none")
    with open(path, "rb") as opened: kept.append(safetensors._safe_open_handle(opened, "np"))
if "torch" in sys.argv:
    import torch, safetensors.torch as stt
    for backend in ("mmap", "pread", "auto"):
        with safe_open(path, "pt", backend=backend) as f:
            kept += [f.get_tensor("large"), f.get_slice("small")[1:], f.get_slice("small")[[0, 1]], f.get_tensors()]
            try: f.get_slice("small")[9]
            except (IndexError, SafetensorError): pass
        kept.append(stt.load_file(path, backend=backend))
    kept.append(safetensors.load(path, framework="pt"))
    kept += [stt.load(stt.save({"a": torch.ones(2)})), stt.load(stt.save({"a": torch.ones(2)}), copy=False)]
    class Remote(torch.Tensor):  # plays a tensor on a device
        is_cpu = False
        def to(self, device): return self.as_subclass(torch.Tensor).clone()
    stt.save_file({"a": torch.ones(2).as_subclass(Remote)}, path + ".again", durability="none")
ORDER
"""


@pytest.mark.parametrize("order", ["kept.clear()", "kept.reverse(); kept.clear(); gc.collect()", "del kept"])
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_nothing_leaks(path: Path, order: str, framework: str) -> None:
    if not installed(framework):
        pytest.skip(f"{framework} is not here")
    code = EVERYTHING.replace("ORDER", order)
    run(code, path, framework)  # nanobind would tell of leaks on stderr


def test_memory_that_is_given_up_is_given_back(path: Path) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def maps() -> int:
        return Path("/proc/self/maps").read_text().count(str(path))

    if not Path("/proc/self/statm").exists():
        pytest.skip("this system does not tell what a process holds")
    for backend in ("mmap", "pread", "auto"):
        for i in range(40):
            with safe_open(path, "np", backend=backend) as f:
                f.get_tensor("large")[:] = 1
                stn.load_file(path, backend=backend)["large"][:] = 1
            if i == 4:
                before = resident()
        gc.collect()
        assert maps() == 0
        assert resident() - before < 10 << 20  # 80 loads of 2 MiB


@pytest.mark.parametrize("framework", ["np", "pt"])
def test_a_buffer_is_held_as_long_as_views_of_it_and_no_longer(framework: str) -> None:
    if framework == "pt" and not installed("torch"):
        pytest.skip("torch is not here")
    # A bytearray that is exported cannot be resized.
    buffer = bytearray(stn.save({"a": np.arange(4.0), "b": np.arange(6)}))
    before = sys.getrefcount(buffer)
    loaded = _native._load(buffer, framework, copy=False)
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
        _native._load(buffer, framework, copy=False)  # one byte too many
    buffer.pop()
    copied = _native._load(buffer, framework)
    buffer.clear()
    assert copied["a"].tolist() == [7.0, 1.0, 2.0, 3.0]


@BACKENDS
def test_a_weakref_to_a_tensor_dies_with_it(path: Path, backend: str) -> None:
    if not installed("torch"):
        pytest.skip("torch is not here")
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
        return safe_open(self.path, "pt", backend=self.backend)

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        self.file = self.file or self.open()
        return self.file.get_slice("rows")[index]


@BACKENDS
@pytest.mark.parametrize(("method", "early"), [("fork", True), ("fork", False), ("spawn", False)])
def test_a_data_loader(tmp_path: Path, backend: str, method: str, early: bool) -> None:
    if not installed("torch"):
        pytest.skip("torch is not here")
    import torch

    stn.save_file({"rows": np.arange(640.0).reshape(64, 10)}, tmp_path / "rows")
    data = Rows(str(tmp_path / "rows"), backend, early)
    loader = torch.utils.data.DataLoader(data, batch_size=16, num_workers=2, multiprocessing_context=method)
    assert torch.equal(torch.cat(list(loader)), torch.arange(640.0, dtype=torch.float64).reshape(64, 10))


@BACKENDS
def test_a_default_device_of_torch_does_not_touch_what_is_loaded(tmp_path: Path, backend: str) -> None:
    if not installed("torch"):
        pytest.skip("torch is not here")
    import torch

    import safetensors.torch as stt

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


AT_EXIT = """
import sys, threading
import safetensors.numpy as stn
from safetensors import safe_open
path, backend = sys.argv[1:]
rounds = threading.Semaphore(0)
def work():
    while True:
        with safe_open(path, "np", backend=backend) as f:
            f.get_tensors(), f.get_tensor("large"), f.get_slice("large")[3:]
        stn.save_file({}, path + backend, durability="none")
        rounds.release()
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
for _ in range(6): assert rounds.acquire(timeout=200)
"""


@BACKENDS
def test_daemon_threads_do_not_abort_the_end_of_the_program(path: Path, backend: str) -> None:
    if sys.version_info >= (3, 14):  # 3.14: PyEval_RestoreThread does not return
        pytest.skip("threads that ask for the GIL of an interpreter that ends hang by themselves")
    for _ in range(4):
        run(AT_EXIT, path, backend)
