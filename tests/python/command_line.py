"""Helper: runs the command `safetensors` that the package brings."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def command(*arguments: object) -> str:
    """Run the command of this environment. Return its output. It must succeed."""
    found = shutil.which("safetensors", path=str(Path(sys.executable).parent)) or shutil.which("safetensors")
    if found is None:
        pytest.skip("there is no command safetensors")
    done = subprocess.run([found, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    if "no command" in done.stderr:
        pytest.skip("the wheel holds no command")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def document(*arguments: object) -> Any:
    return json.loads(command(*arguments, "--json"))
