"""Full disks, missing rights, little memory, files that shrink, Ctrl-C."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import run

import safetensors.numpy as st
from safetensors import SafetensorError, TensorSpec, safe_open
from safetensors._write.save_checkpoint import write_file


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A file system of 4 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_keeps_the_old_file(small_disk: Path) -> None:
    path = small_disk / "t"
    old = {"a": np.arange(1000)}
    st.save_file(old, path)
    for durability in ("full", "file", "none"):
        with pytest.raises(SafetensorError, match="^Error while serializing: .*[Nn]o space left on device") as caught:
            st.save_file({"a": np.zeros(8 << 20, np.uint8)}, path, durability=durability)
        assert caught.value.errno == 28  # type: ignore[attr-defined]
        assert (st.load_file(path)["a"] == old["a"]).all() and os.listdir(small_disk) == ["t"]


def as_nobody(code: str, path: Path) -> str:
    """Runs code as a user without rights, who may enter the folders of the path."""
    for folder in path.parents[1:]:
        if folder == Path("/tmp") or not os.access(folder, os.W_OK):
            break
        folder.chmod(folder.stat().st_mode | 0o055)
    # All imports come first: the user nobody may have no right to read the folders of the packages.
    drop = "import os, sys, numpy as np, safetensors.numpy as st; st.save({'a': np.zeros(1)})\n"
    if os.geteuid() == 0:
        drop += "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    return run(drop + code, path)


def test_a_folder_that_must_not_be_written_to(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    st.save_file({"a": np.arange(3)}, folder / "t")
    folder.chmod(0o555)
    code = "try: st.save_file({'a': np.zeros(3)}, sys.argv[1])\nexcept Exception as error: print(type(error).__name__, error.errno, error)"
    said = as_nobody(code, folder / "t")
    folder.chmod(0o755)
    assert said.startswith("SafetensorError 13 Error while serializing: ")
    assert str(folder / "t") in said and os.listdir(folder) == ["t"]
    assert st.load_file(folder / "t")["a"].tolist() == [0, 1, 2]


def test_a_file_that_must_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "t"
    path.parent.mkdir()
    st.save_file({"a": np.arange(3)}, path)
    path.chmod(0)
    code = "try: st.load_file(sys.argv[1])\nexcept PermissionError as error: print(error.errno, error.filename)"
    assert as_nobody(code, path) == f"13 {path}\n"


def test_a_file_that_shrinks_is_an_error_by_pread(tmp_path: Path) -> None:
    path = tmp_path / "t"
    st.save_file({"a": np.zeros(1 << 20, np.uint8), "b": np.zeros(8, np.uint8)}, path)
    with safe_open(path, "np", backend="pread") as f:
        part = f.get_slice("a")
        os.truncate(path, path.stat().st_size - 16)
        with pytest.raises(SafetensorError, match="^tensor `b`: file became shorter: ") as caught:
            f.get_tensor("b")
        assert caught.value.code == "file_truncated"  # type: ignore[attr-defined]
        with pytest.raises(SafetensorError, match="file became shorter"):
            f.get_tensors()
        os.truncate(path, 200)
        with pytest.raises(SafetensorError, match="^tensor `a`: file became shorter: "):
            part[5000:]


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


def test_a_folder_that_vanishes_while_a_file_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    array = np.zeros(1 << 20, np.uint8)
    spec = TensorSpec(dtype="uint8", shape=[1 << 20], data_ptr=array.ctypes.data, data_len=1 << 20)

    def fetch(name: str) -> tuple[int, int, object]:
        shutil.rmtree(folder)
        return spec.data_ptr, spec.data_len, array

    with pytest.raises(SafetensorError, match="^Error while serializing: ") as caught:
        write_file({"a": spec}, folder / "t", None, "full", fetch)
    assert caught.value.errno == 2  # type: ignore[attr-defined]
    assert os.listdir(tmp_path) == []
