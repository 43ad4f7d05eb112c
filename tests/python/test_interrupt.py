"""Ctrl-C ends opening, however large the header is, and the GIL is free meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import file_bytes

# 94 MB of one name: an error, but only when all of it was read.
ENTRY = '"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
COUNT = 1_880_000

PROGRAM = """
import os, signal, sys, threading
import safetensors, safetensors.numpy
from safetensors import SafetensorError

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell's & began the tests
path, index = sys.argv[1:]
data = open(path, "rb").read() if OPENS == "memory" else b""
begun = threading.Event()

def interrupt():
    begun.wait()
    os.kill(os.getpid(), signal.SIGINT)

thread = threading.Thread(target=interrupt)
thread.start()
try:
    begun.set()
    try:
        CALL
    except SafetensorError:
        thread.join()
        print("to the end")
except KeyboardInterrupt as error:
    print("interrupted", type(error.__context__).__name__)
thread.join()
"""


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
    done = subprocess.run(
        [sys.executable, "-c", program, str(hostile), str(index)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("interrupted NoneType\n", "")
