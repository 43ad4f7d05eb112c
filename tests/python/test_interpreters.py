"""A second interpreter of the process cannot import the package, and the first one keeps it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from safetensors.numpy import save_file

CODE = """
import sys
import safetensors
try:
    import _interpreters
    def start(isolated, code):
        made = _interpreters.create("isolated" if isolated else "legacy")
        failed = _interpreters.exec(made, code)
        if failed: raise RuntimeError(failed.formatted)
except ImportError:
    import _xxsubinterpreters as _interpreters
    def start(isolated, code):
        _interpreters.run_string(_interpreters.create(isolated=isolated), code)

def use():
    with safetensors.safe_open(sys.argv[1], "np") as f:
        print(f.get_slice("a")[1:].tolist())

use()
second = "import safetensors\\nfrom safetensors import safe_open"
for isolated in (False, True, False):
    try:
        start(isolated, second)
    except RuntimeError as error:
        print(error, flush=True)
    use()
"""
REFUSED = (
    "safetensors is imported in another interpreter of this process, and it works in one only (import it in one"
    " interpreter, or use processes; for mod_wsgi: WSGIApplicationGroup %{GLOBAL})"
)


@pytest.mark.skipif(sys.version_info[:2] in {(3, 10), (3, 12)}, reason="_xxsubinterpreters of 3.10 and 3.12 differ")
def test_the_first_interpreter_keeps_the_package(tmp_path: Path) -> None:
    save_file({"a": np.arange(3)}, tmp_path / "t")
    done = subprocess.run([sys.executable, "-c", CODE, tmp_path / "t"], capture_output=True, text=True)
    assert done.stdout.count("[1, 2]\n") == 4, done.stdout + done.stderr
    assert done.stdout.count(REFUSED) == 3, done.stdout + done.stderr
