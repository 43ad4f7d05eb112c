"""Prefetch loaders: threads, forks, leaks, reads that never return, the end of the program."""

from __future__ import annotations

import gc
import json
import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import installed, run
from test_prefetch import DATA, FRAMEWORKS, HEADER, IN_FILE_ORDER, B, opened

import safetensors.numpy as stn
from safetensors import SafetensorError, safe_open

pytestmark = pytest.mark.slow


@pytest.fixture
def path(make: Any) -> Any:
    return make(HEADER, DATA)


def test_a_loader_outlives_its_handle_and_the_file(path: Path) -> None:
    f = opened(path)
    loaders = [f.prefetch(), f.prefetch({"b": slice(2, 3)})]
    f.__exit__(None, None, None)
    del f
    path.unlink()
    assert loaders[0].take("b").tolist() == B.tolist()
    assert loaders[1].take("b").tolist() == B[2:3].tolist()


def test_a_forked_child_is_told(path: Path) -> None:
    with opened(path) as f:
        p = f.prefetch()
        stream = iter(p)
        taken = p.take("b")
        child = os.fork()
        if child == 0:
            text = "a prefetch loader reads only in the process that made it: open the file again in the forked child"
            good = taken.tolist() == B.tolist() and len(p) == 5 and p.names() == IN_FILE_ORDER
            for call in (lambda: p.take("b"), lambda: p.take("s"), lambda: next(stream)):
                try:
                    call()
                    good = False
                except SafetensorError as error:
                    good = good and str(error) == text
            p.close()
            good = good and f.prefetch().take("b").tolist() == B.tolist()
            del p, stream
            gc.collect()
            os._exit(0 if good else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert p.take("s").tolist() == 3.5 and len(list(stream)) == 3


LEAKS = """
import gc, sys
import numpy as np
from safetensors import SafetensorError, _native, safe_open
_native._set_leak_warnings(True)
path, kind = sys.argv[1:]
class Holder: pass
for _ in range(3):
    with safe_open(path, kind) as f:
        kept = [f.prefetch(), f.prefetch({"b": slice(1, 2)}), f.get_tensor_meta("b")]
        kept += [kept[0].take("b"), iter(kept[0]), next(iter(kept[0])), next(iter(kept[1]))]
        for wrong in (lambda: f.prefetch({"b": 3}), lambda: f.prefetch([]), lambda: kept[0].take("zz"), lambda: f.prefetch(threads=-1),
                      lambda: f.prefetch({"b": slice(9)}), lambda: f.prefetch(device="nope"), lambda: f.get_tensor_meta("zz")):
            try: wrong()
            except Exception as error: last = error
        with f.prefetch() as p: p.take("s")
        try: p.take("s")
        except SafetensorError: pass
        if kind == "pt":
            p = f.prefetch()
            taken = p.take("b")
            taken.loader, taken.stream = p, iter(p)
            import weakref
            watched = weakref.ref(taken)
            del p, taken
            assert watched() is None
ORDER
"""


@pytest.mark.parametrize("order", ["kept.clear()", "kept.reverse(); del kept; gc.collect()", ""])
@FRAMEWORKS
def test_no_loader_leaks(path: Path, order: str, kind: str) -> None:
    if kind == "pt" and not installed("torch"):
        pytest.skip("torch is not here")
    run(LEAKS.replace("ORDER", order), path, kind)


def resident() -> int:
    if not Path("/proc/self/statm").exists():
        pytest.skip("this system does not tell what a process holds")
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_and_files_are_given_back(tmp_path: Path) -> None:
    resident()  # skips

    def held() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    stn.save_file({"a": np.ones(1 << 19), "b": np.ones(1 << 19)}, tmp_path / "t", durability="none")
    held_before = held()
    for i in range(40):
        with safe_open(tmp_path / "t", "np") as f:
            p = f.prefetch()
        if i % 4 == 0:
            p.take("a")[0] = 2
        if i % 4 == 1:
            dict(p)
        if i % 4 == 2:
            with p:
                p.take("b")
        del p
        if i == 4:
            before = resident()
    # A thread that was joined may still be listed for a moment.
    limit = time.monotonic() + 10
    while held() != held_before and time.monotonic() < limit:
        time.sleep(0.01)
    assert held() == held_before
    assert resident() - before < 24 << 20  # of 35 times 8 MiB


def test_a_taken_tensor_belongs_to_the_taker(tmp_path: Path) -> None:
    header, size = {}, 8 << 20
    for i in range(60):
        header[f"t{i}"] = {"dtype": "U8", "shape": [size], "data_offsets": [i * size, (i + 1) * size]}
    (tmp_path / "t").write_bytes(struct.pack("<Q", len(json.dumps(header))) + json.dumps(header).encode())
    os.truncate(tmp_path / "t", (tmp_path / "t").stat().st_size + 60 * size)
    with opened(tmp_path / "t") as f, f.prefetch() as p:
        before = resident()
        for name in p.names():
            assert p.take(name)[-1] == 0
        assert resident() - before < 10 * size  # of 60 tensors, and the loader is open


def threads_of_this_process() -> int:
    if not Path("/proc/self/task").exists():
        pytest.skip("this system does not tell what a process holds")
    return len(os.listdir("/proc/self/task"))


def test_what_was_read_before_an_error_can_be_taken(tmp_path: Path) -> None:
    tensors = {name: np.full(4 << 20, i, np.uint8) for i, name in enumerate("abc")}
    stn.save_file(tensors, tmp_path / "t", durability="none")
    before = threads_of_this_process()
    with opened(tmp_path / "t") as f:
        os.truncate(tmp_path / "t", (tmp_path / "t").stat().st_size - 100)
        p = f.prefetch(threads=1)
    while threads_of_this_process() > before:
        time.sleep(0.01)
    for name in ("b", "a"):
        assert np.array_equal(p.take(name), tensors[name])
    taken: list[str] = []
    with pytest.raises(SafetensorError, match="file became shorter"):
        taken += [name for name, _ in p]
    for _ in range(2):
        with pytest.raises(SafetensorError, match="^c: .*file became shorter"):
            p.take("c")


def test_the_file_is_closed_when_all_is_taken(path: Path) -> None:
    threads_of_this_process()
    descriptors = len(os.listdir("/proc/self/fd"))
    with opened(path) as f:
        p = f.prefetch()
    assert len(dict(p)) == 5
    assert len(os.listdir("/proc/self/fd")) == descriptors


AT_EXIT = """
import sys, threading
import numpy
from safetensors import safe_open
path, how = sys.argv[1:]
f = safe_open(path, "np")
if how == "global":
    p = f.prefetch(); stream = iter(p); next(stream)
elif how == "cycle":
    p = f.prefetch(); kept = [p]; kept.append(kept); del p
elif how == "builtin":
    import builtins; builtins.kept = f.prefetch(), iter(f.prefetch())
else:
    rounds = threading.Semaphore(0)
    def work():
        while len(dict(f.prefetch())["b"]): rounds.release()
    for _ in range(3): threading.Thread(target=work, daemon=True).start()
    for _ in range(4): rounds.acquire()
"""


@pytest.mark.parametrize("how", ["global", "cycle", "builtin", "daemon"])
def test_the_end_of_the_program(tmp_path: Path, how: str) -> None:
    if how == "daemon" and sys.version_info >= (3, 14):  # PyEval_RestoreThread does not return
        pytest.skip("threads that ask for the GIL of an interpreter that ends hang by themselves")
    big = np.zeros(4 << 20)
    stn.save_file({"a": big, "b": big}, tmp_path / "t", durability="none")
    for _ in range(2):
        run(AT_EXIT, tmp_path / "t", how)


# A gate before every read, and how many have passed it.
GATE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
volatile int gate, polls, reads, waiting, joins, waits, waiters;
typedef ssize_t (*read_at)(int, void*, size_t, off_t);
ssize_t pread(int fd, void* to, size_t size, off_t offset) {
  __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
  while (gate) usleep(1000), ++polls;
  __atomic_add_fetch(&reads, 1, __ATOMIC_SEQ_CST);
  return ((read_at)dlsym(RTLD_NEXT, "pread"))(fd, to, size, offset);
}
ssize_t pread64(int fd, void* to, size_t size, off_t offset) { return pread(fd, to, size, offset); }
typedef int (*join)(pthread_t, void**);
int pthread_join(pthread_t thread, void** result) {
  __atomic_add_fetch(&joins, 1, __ATOMIC_SEQ_CST);
  return ((join)dlsym(RTLD_NEXT, "pthread_join"))(thread, result);
}
// Counts the waits with a limit that the extension calls, by either function. Python waits by them, too.
static void count(void* caller) {
  static __thread int seen;
  Dl_info found;
  if (!dladdr(caller, &found) || !strstr(found.dli_fname, "_native")) return;
  __atomic_add_fetch(&waits, 1, __ATOMIC_SEQ_CST);
  if (!seen++) __atomic_add_fetch(&waiters, 1, __ATOMIC_SEQ_CST);
}
typedef int (*clockwait)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
int pthread_cond_clockwait(pthread_cond_t* changed, pthread_mutex_t* mutex, clockid_t clock, const struct timespec* limit) {
  count(__builtin_return_address(0));
  return ((clockwait)dlsym(RTLD_NEXT, "pthread_cond_clockwait"))(changed, mutex, clock, limit);
}
typedef int (*timedwait)(pthread_cond_t*, pthread_mutex_t*, const struct timespec*);
int pthread_cond_timedwait(pthread_cond_t* changed, pthread_mutex_t* mutex, const struct timespec* limit) {
  count(__builtin_return_address(0));
  void* real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");  // x86 has an older one, too
  return ((timedwait)(real ? real : dlsym(RTLD_NEXT, "pthread_cond_timedwait")))(changed, mutex, limit);
}
"""

GATED = """
import warnings; warnings.simplefilter("ignore", DeprecationWarning)  # of fork() while threads run
import ctypes, gc, os, signal, sys, threading, time
import numpy
from safetensors import SafetensorError, safe_open
signal.alarm(300)
def variable(name): return ctypes.c_int.in_dll(ctypes.CDLL(None), name)
gate, polls, reads, waiting, joins, waits, waiters = map(variable, "gate polls reads waiting joins waits waiters".split())
def begun():
    gate.value, reads.value, waiting.value = 1, 0, 0
    p = f.prefetch(threads=1)
    while waiting.value == 0: time.sleep(0.001)
    return p
def let_it_pass(): gate.value = 0
def until(counter, more):
    before = counter.value
    def wait():
        while counter.value < before + more: time.sleep(0.001)
    return wait
def then(wait, call): threading.Thread(target=lambda: (wait(), call()), daemon=True).start()
def ring(): os.kill(os.getpid(), signal.SIGALRM)
f = safe_open(sys.argv[1], "np")
f.prefetch().take("a")  # what is imported late is imported
"""

GATED_TESTS = {
    "other threads run while one waits": """
p = begun()
then(until(waits, 1), let_it_pass)
assert p.take("b").sum() == 0
""",
    "a signal ends the waiting, not the load": """
class Alarm(BaseException): pass
def rung(*_): raise Alarm
signal.signal(signal.SIGALRM, rung)
p = begun()
for wait in (lambda: p.take("a"), lambda: next(iter(p))):
    then(until(waits, 1), ring)
    try: wait()
    except Alarm: pass
    else: sys.exit("was not interrupted")
assert reads.value == 0
gate.value = 0
assert p.take("a").sum() == 0 and sorted(n for n, _ in p) == ["b"]
""",
    "close wakes those who wait, and stops reading": """
p = begun()
texts = []
def wait(call):
    try: call()
    except SafetensorError as error: texts.append(str(error))
    if len(texts) == 2: gate.value = 0
for call in (lambda: p.take("a"), lambda: next(iter(p))): threading.Thread(target=wait, args=(call,)).start()
p.close()
assert sorted(texts) == ["a: prefetch loader closed", "prefetch loader closed"], texts
assert 1 <= reads.value < 4, reads.value  # of 64
""",
    "a handler closes the loader that waits": """
p = begun()
def close(*_):
    then(until(joins, 1), let_it_pass)
    p.close()
signal.signal(signal.SIGALRM, close)
then(until(waits, 1), ring)
try: p.take("b")
except SafetensorError as error: assert str(error) == "b: prefetch loader closed", error
else: sys.exit("was not closed")
assert reads.value < 4, reads.value  # of 64
""",
    "a handler takes from the loader that waits": """
p = begun()
taken = []
def take(*_):
    let_it_pass()
    taken.append(p.take("b"))
signal.signal(signal.SIGALRM, take)
then(until(waits, 1), ring)
assert p.take("a").sum() == 0
assert len(taken) == 1 and taken[0].sum() == 0
""",
    "those who wait go on when a signal ends the waiting of one": """
class Alarm(BaseException): pass
def rung(*_): raise Alarm
signal.signal(signal.SIGALRM, rung)
p = begun()
taken = []
threads = [threading.Thread(target=lambda n=n: taken.append(p.take(n))) for n in "ab"]
def start_them():
    others = until(waiters, 2)
    for thread in threads: thread.start()
    then(others, ring)
then(until(waits, 1), start_them)
try: p.take("b")  # waits first, so the others wait for this thread
except Alarm: pass
else: sys.exit("was not interrupted")
assert taken == []
let_it_pass()
for thread in threads: thread.join()
assert len(taken) == 2
""",
    "waiting costs no time of a processor": """
p = begun()
threads = [threading.Thread(target=p.take, args=(n,)) for n in "ab"]
both_wait, both_wait_again = until(waiters, 2), until(waits, 10)
for thread in threads: thread.start()
both_wait()
before = waits.value, polls.value
both_wait_again()
until(polls, 200)()
assert waits.value - before[0] < 20 * (polls.value - before[1])  # a loop without a pause asks 1000 times per poll
let_it_pass()
for thread in threads: thread.join()
""",
    "a child is told though a thread of the parent waits": """
p = begun()
thread = threading.Thread(target=p.take, args=("b",))
waits_too = until(waits, 1)
thread.start()
waits_too()
child = os.fork()
if child == 0:
    signal.alarm(60)
    for call in (lambda: p.take("a"), lambda: next(iter(p))):
        try: call()
        except SafetensorError as error: assert "open the file again in the forked child" in str(error)
        else: sys.exit(1)
    p.close()
    del p, call
    gc.collect()
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
let_it_pass()
thread.join()
assert p.take("a").sum() == 0
""",
    "a child ends though the threads that it inherited do not": """
p = begun()
child = os.fork()
if child == 0:
    signal.alarm(60)
    stream = iter(p)
    del p, stream
    gc.collect()
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
kept = p  # and one that keeps it to the end
child = os.fork()
if child == 0:
    signal.alarm(60)
    sys.exit(4)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
gate.value = 0
assert len(dict(p)) == 2
""",
}


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("no compiler to make the gate with")
    folder = tmp_path_factory.mktemp("gate")
    (folder / "gate.c").write_text(GATE)
    command = [compiler, "-shared", "-fPIC", "-o", str(folder / "gate.so"), str(folder / "gate.c")]
    subprocess.run([*command, "-ldl"], check=True)
    return folder / "gate.so"


@pytest.mark.parametrize("what", GATED_TESTS)
def test_reads_that_wait(make: Any, gate: Path, what: str) -> None:
    size = 64 << 20
    path = make(
        f'{{"a":{{"dtype":"U8","shape":[{size}],"data_offsets":[0,{size}]}},'
        f'"b":{{"dtype":"U8","shape":[{size}],"data_offsets":[{size},{2 * size}]}}}}'
    )
    os.truncate(path, path.stat().st_size + 2 * size)
    run(GATED + GATED_TESTS[what], path, env={**os.environ, "LD_PRELOAD": str(gate)})
