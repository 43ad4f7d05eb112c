"""Full disks, missing rights, little memory, files that shrink, Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import run

import safetensors.numpy as st


def test_a_file_that_must_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "t"
    st.save_file({"a": np.arange(3)}, path)
    path.chmod(0)
    # The user nobody may not enter the folders of packages and of tests: all imports and chdir() come before.
    code = """
import os, sys, numpy, safetensors.numpy as st
st.save({'a': numpy.zeros(1)})
os.chdir(sys.argv[1])
try:
    if os.geteuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)
except OSError:
    print('no other user')
    sys.exit()
try: st.load_file('t')
except PermissionError as error: print(error.errno, error.filename)
"""
    tmp_path.chmod(0o755)
    printed = run(code, tmp_path)
    if printed == "no other user\n":
        pytest.skip("root may not become another user here")
    assert printed == "13 t\n"


def test_little_memory_is_a_memory_error(tmp_path: Path) -> None:
    path = tmp_path / "t"
    size = 1 << 30
    with open(path, "wb") as out:
        header = b'{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (size, size)
        out.write(len(header).to_bytes(8, "little") + header)
        out.truncate(8 + len(header) + size)
    code = """
import resource, sys, numpy, safetensors.numpy as st
from safetensors import safe_open
used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20),) * 2)
for call in (lambda: st.load_file(sys.argv[1]), lambda: st.load_file(sys.argv[1], backend='pread'),
             lambda: safe_open(sys.argv[1], 'np').get_tensor('a'), lambda: safe_open(sys.argv[1], 'np').get_slice('a')[:],
             lambda: st.save({'a': numpy.broadcast_to(numpy.zeros(1, 'u1'), (1 << 30,))})):
    try: call()
    except MemoryError: print('MemoryError')
print(safe_open(sys.argv[1], 'np').get_slice('a')[5:8])
"""
    assert run(code, path) == "MemoryError\n" * 5 + "[0 0 0]\n"


SAVE_LONG = """
import signal; signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell's & began the tests
import sys, numpy as np
from safetensors import TensorSpec, serialize_file
block = np.zeros(64 << 20, np.uint8)
spec = TensorSpec(dtype="uint8", shape=[block.size], data_ptr=block.ctypes.data, data_len=block.size)
print("ready", flush=True)
try:
    serialize_file({f"t{i}": spec for i in range(int(sys.argv[2]))}, sys.argv[1], durability=sys.argv[3])
    print("saved")
except KeyboardInterrupt:
    counts = dict(line.split(": ") for line in open("/proc/self/io"))
    print("KeyboardInterrupt", int(counts["wchar"]))  # bytes that the process has written
"""


@pytest.mark.parametrize("durability", ["none", "full"])
def test_ctrl_c_ends_a_long_save(tmp_path: Path, durability: str) -> None:
    path = tmp_path / "t"
    st.save_file({"old": np.arange(3)}, path)
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    if free < 10 << 30:
        pytest.skip(f"only {free >> 20} MiB of disk are free for a save that takes long")
    if not os.access("/proc/self/io", os.R_OK):
        pytest.skip("this system does not count the bytes that a process writes")
    tensors = 128  # 8 GiB
    command = [sys.executable, "-c", SAVE_LONG, str(path), str(tensors), durability]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "ready\n"
    while not any(p.name != "t" and p.stat().st_size > 0 for p in tmp_path.iterdir()):
        time.sleep(0.01)  # until the save has begun to write
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    # A save that ends first, and checks for the signal then, has written all bytes.
    name, _, written = said.rstrip("\n").partition(" ")
    assert name == "KeyboardInterrupt" and int(written) < tensors * (64 << 20)
    assert os.listdir(tmp_path) == ["t"] and st.load_file(path)["old"].tolist() == [0, 1, 2]
