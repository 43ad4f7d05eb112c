"""Makes small safetensors files without the library, and runs an example on them."""

import json
import pathlib
import struct
import subprocess
import sys

def check(condition, text):
    if not condition:
        sys.exit(f"failed: {text}")


def bf16(value):
    """The bytes of a number that BF16 holds exactly."""
    low, high = struct.pack("<f", value)[:2], struct.pack("<f", value)[2:]
    assert low == b"\0\0", value
    return high


def elements(dtype, values):
    if dtype == "BF16":
        return b"".join(map(bf16, values))
    return struct.pack(f"<{len(values)}{'f' if dtype == 'F32' else 'q'}", *values)


def write_file(path, tensors, metadata=None):
    """tensors: name -> (dtype, shape, values or bytes)"""
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, (dtype, shape, values) in tensors.items():
        begin = len(data)
        data += values if isinstance(values, bytes) else elements(dtype, values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def fnv(data):
    value = 2166136261
    for byte in data:
        value = (value ^ byte) * 16777619 % 2**32
    return value


def read_header(path):
    """(header, offset of the data)"""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        return json.loads(file.read(size)), 8 + size


def run(program, *arguments, status=0, before=None):
    """Returns stdout, or stderr if a failure is expected."""
    command = [program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=before, timeout=300)
    check(done.returncode == status, f"{command}: status {done.returncode}, expected {status}: {done.stderr}")
    return done.stdout if status == 0 else done.stderr
