"""stream: returns tensors one after the other, while it reads the next."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sharded
from conftest import FRAMEWORKS, run, sparse, text_about
from sharded import same

from safetensors import Checkpoint, SafetensorError, CheckpointStream, stream

WANT = sharded.tensors()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return sharded.save(tmp_path / "model", WANT)


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """64 tensors of 1 MiB."""
    arrays = {f"t{i}": np.full(1 << 18, i, np.float32) for i in range(64)}
    return sharded.save(tmp_path / "many", arrays)


@FRAMEWORKS
@pytest.mark.parametrize("memory_limit", [0, 1, 300, 1 << 30])
@pytest.mark.parametrize("threads", [0, 1, 4])
def test_every_tensor_comes_once(folder: Path, kind: str, memory_limit: int, threads: int) -> None:
    items = stream(folder, framework=kind, memory_limit=memory_limit, threads=threads)
    assert isinstance(items, CheckpointStream) and iter(items) is items
    got = list(items)
    assert sorted(name for name, _ in got) == sorted(WANT)
    assert all(same(array, WANT[name]) for name, array in got)
    assert list(items) == []  # and nothing more


def test_closing_ends_it_early(many: Path) -> None:
    with stream(many, memory_limit=1 << 20) as items:
        next(items)
    assert list(items) == []
    items.close()
    with pytest.raises(StopIteration):
        next(items)
    items = stream(many, memory_limit=1 << 20)
    gone = weakref.ref(items)
    del items
    gc.collect()
    assert gone() is None


def test_an_error_while_it_reads_is_raised_and_stays(many: Path) -> None:
    file = sorted(many.glob("*.safetensors"))[1]
    checkpoint = Checkpoint(many)
    os.truncate(file, file.stat().st_size - 5)
    with checkpoint.stream(cache="fill") as items:
        for _ in range(2):
            with pytest.raises(SafetensorError, match=text_about(file, "tensor `t[0-9]+`: file became shorter: ")):
                list(items)


def test_closing_while_another_thread_waits(many: Path) -> None:
    for _ in range(10):
        items = stream(many, memory_limit=1 << 20)
        thread = threading.Thread(target=lambda it=items: list(it))
        thread.start()
        items.close()
        thread.join(60)
        assert not thread.is_alive()


def test_a_forked_child_can_drop_it_but_not_use_it(many: Path) -> None:
    items = stream(many, memory_limit=2 << 20)
    next(items)
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # a child that waits for threads which it does not have is killed
        try:
            next(items)
        except SafetensorError as error:
            good = str(error) == "a stream cannot be used in a forked child: make one there"
            items.close()
            del items
            gc.collect()
            good = good and len(list(stream(many, memory_limit=2 << 20))) == 64
            os._exit(0 if good else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(items)) == 63


BOUNDED = """
import sys
from pathlib import Path
from safetensors import stream
def peak():
    return int(next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("VmHWM")).split()[1]) << 10
kind, limit = sys.argv[2], 16 << 20
for _, tensor in stream(sys.argv[1], keys=["t0"], framework=kind, memory_limit=limit): tensor.sum()
before = peak()
count = 0
for _, tensor in stream(sys.argv[1], framework=kind, memory_limit=limit, cache="fill"):
    tensor.sum()
    count += 1
print(count, (peak() - before) >> 20)
"""


@FRAMEWORKS
def test_memory_stays_within_the_limit(tmp_path: Path, kind: str) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not tell what a process held at most")
    folder = sharded.save(tmp_path, {f"t{i}": np.full(1 << 20, i, np.float32) for i in range(64)})
    count, grown = map(int, run(BOUNDED, folder, kind).split())
    # The stream reads 256 MiB: 16 in flight, one or two taken, shared pages of 2 MiB, the allocator's own.
    assert count == 64 and grown < 64


SLICED = """
import signal, sys
from safetensors import Checkpoint, safe_open
backend = sys.argv[2]
given = Checkpoint(sys.argv[1]) if backend == "checkpoint" else safe_open(sys.argv[1], "np", backend=backend)
signal.signal(signal.SIGALRM, signal.default_int_handler)
part = given.get_slice("t0")
part[:1, :1]  # imports what is needed
done = False
signal.setitimer(signal.ITIMER_REAL, 0.03)
try:
    part[:, :16]
    done = True
except KeyboardInterrupt: print("KeyboardInterrupt", done)
print(part[:2, :3].tolist())
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["pread", "auto", "checkpoint"])
def test_ctrl_c_ends_a_slice_in_the_midst(tmp_path: Path, backend: str) -> None:
    path = sparse(tmp_path / "t", (1 << 21, 1 << 16))
    assert run(SLICED, path, backend) == "KeyboardInterrupt False\n[[0, 0, 0], [0, 0, 0]]\n"


HANDLER = """
import signal, sys, time
from safetensors import Checkpoint, SafetensorError
checkpoint = Checkpoint(sys.argv[1])
said = set()
def handle(*_):
    try: next(items)
    except SafetensorError as error: said.add(str(error))
    except StopIteration: pass
    if said: items.close()
signal.signal(signal.SIGALRM, handle)
end = time.monotonic() + 60
while not said and time.monotonic() < end:
    items = checkpoint.stream(memory_limit=1 << 20, threads=1)
    signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
    for _ in items: pass
    signal.setitimer(signal.ITIMER_REAL, 0)
print(*said, list(items), len(checkpoint.load(["t0"])))
"""


def test_a_signal_s_handler_may_close_it_in_the_midst_of_a_read(tmp_path: Path) -> None:
    text = "a stream cannot be read by the handler of a signal that came while it is read"
    path = sparse(tmp_path / "t.safetensors", *[(16 << 20,)] * 16)  # takes long enough to read
    assert run(HANDLER, path) == f"{text} [] 1\n"


def test_references_are_given_back(folder: Path) -> None:
    checkpoint = Checkpoint(folder)
    target = np.zeros(6, np.int64)

    def report(*_: Any) -> None: ...

    before = sys.getrefcount(target), sys.getrefcount(report)
    for _ in range(5):
        checkpoint.load(out={"ids": target}, progress=report)
        list(checkpoint.stream(out={"ids": target}))
        checkpoint.stream(out={"ids": target}).close()
    gc.collect()
    assert (sys.getrefcount(target), sys.getrefcount(report)) == before
