"""Prefetch loaders: threads, forks, memory, reads that never return. test_lifetime.py has leaks, and the end of the program."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import run, sparse
from test_lifetime import resident
from test_prefetch import DATA, HEADER, IN_FILE_ORDER, B, opened

import safetensors.numpy as stn
from safetensors import SafetensorError

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


def test_a_taken_tensor_belongs_to_the_taker(tmp_path: Path) -> None:
    size = 8 << 20
    sparse(tmp_path / "t", *[(size,)] * 60)
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


# A gate before every read, and how many have passed it.
GATE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
volatile int gate, reads, waiting, joins, waits, waiters;
typedef ssize_t (*read_at)(int, void*, size_t, off_t);
ssize_t pread(int fd, void* to, size_t size, off_t offset) {
  __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
  while (gate) usleep(1000);
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
gate, reads, waiting, joins, waits, waiters = map(variable, "gate reads waiting joins waits waiters".split())
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
f.prefetch().take("t0")  # this imports the modules that a prefetch needs
"""

GATED_TESTS = {
    "other threads run while one waits": """
p = begun()
then(until(waits, 1), let_it_pass)
assert p.take("t1").sum() == 0
""",
    "a signal ends the waiting, not the load": """
class Alarm(BaseException): pass
def rung(*_): raise Alarm
signal.signal(signal.SIGALRM, rung)
p = begun()
for wait in (lambda: p.take("t0"), lambda: next(iter(p))):
    then(until(waits, 1), ring)
    try: wait()
    except Alarm: pass
    else: sys.exit("was not interrupted")
assert reads.value == 0
gate.value = 0
assert p.take("t0").sum() == 0 and sorted(n for n, _ in p) == ["t1"]
""",
    "close wakes those who wait, and stops reading": """
p = begun()
texts = []
def wait(call):
    try: call()
    except SafetensorError as error: texts.append(str(error))
    if len(texts) == 2: gate.value = 0
for call in (lambda: p.take("t0"), lambda: next(iter(p))): threading.Thread(target=wait, args=(call,)).start()
p.close()
assert sorted(texts) == ["prefetch loader closed", "t0: prefetch loader closed"], texts
assert 1 <= reads.value < 4, reads.value  # of 64
""",
    "a handler closes the loader that waits": """
p = begun()
def close(*_):
    then(until(joins, 1), let_it_pass)
    p.close()
signal.signal(signal.SIGALRM, close)
then(until(waits, 1), ring)
try: p.take("t1")
except SafetensorError as error: assert str(error) == "t1: prefetch loader closed", error
else: sys.exit("was not closed")
assert reads.value < 4, reads.value  # of 64
""",
    "a handler takes from the loader that waits": """
p = begun()
taken = []
def take(*_):
    let_it_pass()
    taken.append(p.take("t1"))
signal.signal(signal.SIGALRM, take)
then(until(waits, 1), ring)
assert p.take("t0").sum() == 0
assert len(taken) == 1 and taken[0].sum() == 0
""",
    "those who wait go on when a signal ends the waiting of one": """
class Alarm(BaseException): pass
def rung(*_): raise Alarm
signal.signal(signal.SIGALRM, rung)
p = begun()
taken = []
threads = [threading.Thread(target=lambda n=n: taken.append(p.take(n))) for n in ("t0", "t1")]
def start_them():
    others = until(waiters, 2)
    for thread in threads: thread.start()
    then(others, ring)
then(until(waits, 1), start_them)
try: p.take("t1")  # waits first, so the others wait for this thread
except Alarm: pass
else: sys.exit("was not interrupted")
assert taken == []
let_it_pass()
for thread in threads: thread.join()
assert len(taken) == 2
""",
    "a child is told and ends though a thread of the parent waits": """
p = begun()
thread = threading.Thread(target=p.take, args=("t1",))
waits_too = until(waits, 1)
thread.start()
waits_too()
child = os.fork()
if child == 0:
    signal.alarm(60)
    for call in (lambda: p.take("t0"), lambda: next(iter(p))):
        try: call()
        except SafetensorError as error: assert "open the file again in the forked child" in str(error)
        else: sys.exit(1)
    p.close()
    del p, call
    gc.collect()
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
child = os.fork()  # one that keeps it to its end
if child == 0:
    signal.alarm(60)
    sys.exit(4)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
let_it_pass()
thread.join()
assert p.take("t0").sum() == 0
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
def test_reads_that_wait(tmp_path: Path, gate: Path, what: str) -> None:
    path = sparse(tmp_path / "t", *[(64 << 20,)] * 2)
    run(GATED + GATED_TESTS[what], path, env={**os.environ, "LD_PRELOAD": str(gate)})
