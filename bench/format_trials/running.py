"""Runs a step of an experiment in a process of its own, with limits of time and memory."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

ROWS = [
    "torch",
    "keras",
    "tensorflow",
    "flax",
    "onnx",
    "capnp",
    "arrow",
    "npy",
    "npz",
    "paddle",
    "gguf",
    "safetensors",
]
SCRIPT = Path(__file__).resolve().parent.parent / "formats.py"


class Failed(Exception):
    """A step ended without a result. The message says why."""

    def __init__(self, message: str, offered: bool = True) -> None:
        super().__init__(message)
        self.offered = offered  # whether the library has this feature


class Trials:
    """Runs the steps of one row. Files lie in a temporary folder, which goes with the object."""

    def __init__(self, key: str, python: str, directory: str | None, seconds: float) -> None:
        self.key = key
        self.python = python
        self.seconds = seconds
        self.folder = Path(tempfile.mkdtemp(prefix=f"formats-{key}-", dir=directory)).resolve()
        self.suffix = ""

    def __enter__(self) -> Trials:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name: str) -> str:
        return str(self.folder / (name + self.suffix))

    def remove(self, *names: str) -> None:
        for name in names:
            target = Path(self.path(name))
            if target.is_dir():
                shutil.rmtree(target)
            else:
                target.unlink(missing_ok=True)

    def run(self, step: str, **arguments: Any) -> dict[str, Any]:
        """Return the result of the step. Raise Failed for an error, a signal, or after the limit of time."""
        result = self.folder / "result.json"
        result.unlink(missing_ok=True)
        request = {"row": self.key, "step": step, "result": str(result), "arguments": arguments}
        environment = dict(
            os.environ,
            TF_CPP_MIN_LOG_LEVEL="3",
            KERAS_BACKEND="torch",
            JAX_PLATFORMS="cpu",
            OMP_NUM_THREADS="2",
        )
        log = self.folder / "log"
        with open(log, "wb") as out:
            process = subprocess.Popen(
                [self.python, "-B", str(SCRIPT), "--step", json.dumps(request)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=environment,
                cwd=self.folder,
                start_new_session=True,
            )
            try:
                code = process.wait(self.seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise Failed(f"not finished after {self.seconds:.0f} s") from None
        if not result.exists():
            raise Failed(self._death(code, log))
        answer: dict[str, Any] = json.loads(result.read_text())
        if "failed" in answer:
            raise Failed(self._clean(answer["failed"]), answer.get("offered", True))
        return answer

    def _death(self, code: int, log: Path) -> str:
        lines = log.read_text(errors="replace").strip().splitlines() or [""]
        if code < 0:
            said = [line for line in lines if "failed: " in line or "what(): " in line][-1:]
            reason = f" ({said[0].rpartition('failed: ')[2].strip()[:100]})" if said else ""
            return f"killed by {signal.Signals(-code).name}{reason}"
        return f"exit code {code}: {self._clean(lines[-1])[:160]}"

    def _clean(self, text: str) -> str:
        # The evidence is printed in documents: no paths of this machine.
        return (
            text.replace(str(self.folder) + "/", "")
            .replace(sys.prefix, "")
            .replace(os.path.expanduser("~"), "~")
        )
