"""Ctrl-C ends opening, however large the header is, and long calls. The GIL is free meanwhile."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from conftest import file_bytes, run, sparse

from safetensors.numpy import load_file, save_file

pytestmark = pytest.mark.slow

# 94 MB of one name: an error, but only when all of it was read.
ENTRY = '"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
COUNT = 1_880_000

PROGRAM = '''
import os, signal, sys, threading, time
import safetensors, safetensors.numpy
from safetensors import SafetensorError

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell's & began the tests
path, index = sys.argv[1:]
data = open(path, "rb").read() if OPENS == "memory" else b""

def interrupt(begun):
    begun.wait()
    os.kill(os.getpid(), signal.SIGINT)

def attempt():
    """Return whether the signal ended the call. Under load it may come when the call is over."""
    begun = threading.Event()
    thread = threading.Thread(target=interrupt, args=(begun,))
    thread.start()
    try:
        begun.set()
        try:
            CALL
        except SafetensorError:
            thread.join()
            time.sleep(60)  # until the handler has run
    except KeyboardInterrupt as error:
        thread.join()
        return error.__context__ is None

print("interrupted" if any(attempt() for _ in range(50)) else "to the end")
'''


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    path = folder / "hostile.safetensors"
    path.write_bytes(file_bytes("{" + ",".join([ENTRY] * COUNT) + "}"))
    index = {"weight_map": {"": "hostile.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return path


@pytest.mark.parametrize(
    ("opens", "call"),
    [
        ("path", 'safetensors.safe_open(path, "np")'),
        ("path", 'safetensors._safe_open_handle(open(path, "rb"), "np")'),
        ("path", "safetensors.numpy.load_file(path)"),
        ("path", 'safetensors.Checkpoint(path, framework="np")'),
        ("path", 'safetensors.Checkpoint(index, framework="np")'),
        ("memory", "safetensors.numpy.load(data)"),
        ("memory", "safetensors.deserialize(data)"),
    ],
)
def test_sigint_ends_opening(hostile: Path, opens: str, call: str) -> None:
    program = PROGRAM.replace("OPENS", repr(opens)).replace("CALL", call)
    index = hostile.parent / "model.safetensors.index.json"
    assert run(program, hostile, index, timeout=120) == "interrupted\n"


# Each entry makes at least one object. The handler raises once some were made: if it runs only when the call is over,
# all of them were.
BUILT = 100_000
BUILDING = """
import signal, sys
import safetensors, safetensors.numpy
from safetensors import Checkpoint, safe_open

path = sys.argv[1]
given = GIVEN

class Stop(Exception):
    pass

def stop(number, frame):
    made = sys.getallocatedblocks() - before
    if made > 1000:
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise Stop(made)

signal.signal(signal.SIGALRM, stop)
before = sys.getallocatedblocks()
if before == 0:
    sys.exit(print("objects are not counted"))
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
try:
    CALL
except Stop as error:
    print("during the call" if error.args[0] < BUILT else "after the call")
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "t.safetensors"
    pairs = ",".join(f'"{i:07}":""' for i in range(BUILT))
    entries = ",".join(f'"{i:07}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' for i in range(BUILT))
    path.write_bytes(file_bytes(f'{{"__metadata__":{{{pairs}}},{entries}}}'))
    return path


@pytest.mark.parametrize(
    ("given", "call"),
    [
        ('safe_open(path, "np")', "given.get_tensors()"),
        ('safe_open(path, "np", backend="pread")', "given.get_tensors()"),
        ('safe_open(path, "np")', "given.keys()"),
        ('safe_open(path, "np")', "given.metadata()"),
        ('safe_open(path, "np")', "given.prefetch()"),
        ('Checkpoint(path, framework="np")', "given._native.names()"),
        ('Checkpoint(path, framework="np", backend="pread")', "given.load()"),
        ('open(path, "rb").read()', "safetensors.numpy.load(given)"),
        ('open(path, "rb").read()', "safetensors.numpy.load(given, copy=False)"),
        ('open(path, "rb").read()', "safetensors.deserialize(given)"),
    ],
)
def test_signals_end_the_making_of_results(large: Path, given: str, call: str) -> None:
    program = BUILDING.replace("BUILT", str(BUILT)).replace("GIVEN", given).replace("CALL", call)
    said = run(program, large, timeout=120)
    if said == "objects are not counted\n":
        pytest.skip("this interpreter does not count its objects")
    assert said == "during the call\n"


LONG = """
import os, signal, sys
import numpy as np
from safetensors import Checkpoint, TensorSpec, Writer, serialize_file
source, path, size = sys.argv[1], sys.argv[2], 1 << 30
checkpoint, block = Checkpoint(source), np.memmap(source, np.uint8, "r")[-size:]
checkpoint["t0"]  # this imports the modules that the call needs
spec = TensorSpec(dtype="uint8", shape=[size], data_ptr=block.ctypes.data, data_len=size)
writer = Writer(path, {"t1": ("U8", (size,))}, durability="none")
def moved():
    counts = dict(line.split(": ") for line in open("/proc/self/io"))
    return int(counts["rchar"]) + int(counts["wchar"])
signal.signal(signal.SIGALRM, signal.default_int_handler)
before = moved()
signal.setitimer(signal.ITIMER_REAL, 0.02)
try:
    CALL
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("it was too fast")
except KeyboardInterrupt:
    print("during the call" if moved() - before < size else "after the call")
writer.close()
assert checkpoint["t0"].tolist() == [0]
"""


@pytest.mark.parametrize(
    "call",
    [
        'checkpoint["t1"]',
        'checkpoint.load(["t1"])',
        'checkpoint.load(["t1"], threads=1, memory_limit=4096)',
        'list(checkpoint.stream(["t1"], threads=1))',
        'writer.write("t1", block)',
        'writer.copy("t1", checkpoint)',
        'serialize_file({"t1": spec}, path, durability="none")',
        'serialize_file({"t1": spec}, path, durability="full")',
    ],
)
def test_signals_end_a_long_call(tmp_path: Path, call: str) -> None:
    if not os.access("/proc/self/io", os.R_OK):
        pytest.skip("this system does not count the bytes that a process reads and writes")
    (tmp_path / "new").mkdir()
    path = tmp_path / "new" / "t"
    save_file({"old": np.arange(3)}, path)
    said = run(LONG.replace("CALL", call), sparse(tmp_path / "source", (1,), (1 << 30,)), path)
    if "copy" in call and said == "it was too fast\n":
        pytest.skip("this file system copies 1 GiB before a signal can come")
    assert said == "during the call\n"
    assert os.listdir(path.parent) == ["t"] and load_file(path)["old"].tolist() == [0, 1, 2]
