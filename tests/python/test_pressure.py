"""Missing rights and little memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import run, sparse

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
    path = sparse(tmp_path / "t", (1 << 30,))
    code = """
import resource, sys, numpy, safetensors.numpy as st
from safetensors import safe_open
used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20),) * 2)
for call in (lambda: st.load_file(sys.argv[1]), lambda: st.load_file(sys.argv[1], backend='pread'),
             lambda: safe_open(sys.argv[1], 'np').get_tensor('t0'), lambda: safe_open(sys.argv[1], 'np').get_slice('t0')[:],
             lambda: st.save({'a': numpy.broadcast_to(numpy.zeros(1, 'u1'), (1 << 30,))})):
    try: call()
    except MemoryError: print('MemoryError')
print(safe_open(sys.argv[1], 'np').get_slice('t0')[5:8])
"""
    assert run(code, path) == "MemoryError\n" * 5 + "[0 0 0]\n"
