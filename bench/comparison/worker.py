"""A process that does one peer's work when a line of JSON on its standard input says so, and tells what that took."""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import mmap
import os
import resource
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .adapters import ADAPTERS, Adapter, Missing

Request = dict[str, Any]
Report = dict[str, Any]


def status(pid: int | str, field: str) -> int:
    """Return a field of /proc/PID/status, in bytes; 0 if it is not there."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def bytes_read() -> int:
    """Return what this process has asked of read calls so far; pages of maps are not counted."""
    return int(Path("/proc/self/io").read_text().split()[1])


def _flat(tensor: Any) -> Any:
    # Its bytes, as a NumPy array that writes through.
    import numpy as np

    if not isinstance(tensor, np.ndarray):
        import torch

        return tensor.reshape(-1).view(torch.uint8).numpy()
    return tensor.reshape(-1).view(np.uint8)


def _then(what: str, tensors: dict[str, Any]) -> None:
    import numpy as np

    for tensor in tensors.values() if what else ():
        flat = _flat(tensor)
        if what == "write":
            flat[::4096] = 1
        elif what == "touch":
            flat[::4096].sum()
        else:
            flat[: flat.size // 8 * 8].view(np.uint64).sum()


def digest(result: Any) -> list[int] | None:
    """Return how many tensors and bytes there are, and a sum over the ends of each."""
    if not isinstance(result, dict):
        return None
    total = 0
    crc = 0
    for name in sorted(result):
        flat = _flat(result[name])
        total += flat.size
        crc = zlib.crc32(flat[:64].tobytes() + flat[-64:].tobytes(), crc)
    return [len(result), total, crc]


def give_back() -> None:
    """Return freed memory to the system: every load is to begin as in a new program, not in pages of the last one."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim:
        trim(ctypes.c_size_t(0))


def pretouch(size: int) -> None:
    """Touch as much memory and free it.

    What a virtual machine has given back to its host costs up to 20 times more at its first touch, and who meets it
    is chance.
    """
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    bytes_of = (ctypes.c_char * size).from_buffer(memory)
    ctypes.memset(bytes_of, 1, size)
    del bytes_of
    memory.close()


class Worker:
    """Does one request after the other; a held result stays until the next."""

    def __init__(self, adapter: Adapter, ready: Callable[[], None]) -> None:
        self.adapter = adapter
        self.ready = ready  # returns when the others of a group are ready, too
        self.held: Any = None

    def answer(self, request: Request) -> Report:
        self.held = None
        give_back()
        if "make" in request:
            for source, target in request["make"]:
                self.adapter.make(source, target)  # type: ignore[attr-defined]
            return {}
        if "op" not in request:
            return {}  # what was held is given back
        try:
            return self._run(request)
        except Missing as missing:
            return {"missing": str(missing)}
        except Exception as error:
            return {"missing": f"{type(error).__name__}: {error}"[:200]}

    def _run(self, request: Request) -> Report:
        op, variant = request["op"], request["variant"]
        name, how = self.adapter.contenders(op)[variant]
        function = getattr(self.adapter, name)
        given: list[Any] = [request["paths"]]
        if op.startswith("save"):
            given = [self.adapter.source(request["paths"], variant), request["target"]]
            Path(request["target"]).unlink(missing_ok=True)
            os.sync()  # nobody waits for what another has written
        if request.get("pretouch"):
            pretouch(request["pretouch"])
        try:
            with open("/proc/self/clear_refs", "w") as clear:
                clear.write("5")  # the peak starts anew
        except OSError:
            pass
        if request.get("group"):
            self.ready()
        before = status("self", "VmRSS")
        read_before = bytes_read()
        cpu = resource.getrusage(resource.RUSAGE_SELF)
        start = time.perf_counter()
        result = function(*given, **request["args"], **how)
        _then(request["then"], result)
        seconds = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_SELF)
        report: Report = {
            "seconds": seconds,
            "ended": start + seconds,
            "cpu": after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime,
            "peak": max(0, status("self", "VmHWM") - before),
            "read": bytes_read() - read_before,
        }
        if request.get("check"):
            report["digest"] = digest(result)
        if request.get("hold"):
            self.held = result
        del result, given
        give_back()
        return report


def serve(peer: str) -> None:
    """Answer lines until there are no more. What the peer prints goes to standard error."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    adapter = ADAPTERS[peer]()
    importlib.import_module("numpy" if peer in ("numpy", "h5py") else "torch")  # not while the clock runs

    def tell(what: Report) -> None:
        print(json.dumps(what), file=out, flush=True)

    def ready() -> None:
        tell({"ready": True})
        sys.stdin.readline()

    worker = Worker(adapter, ready)
    tell({"version": adapter.version()})
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        if "fork" not in request:
            tell(worker.answer(request))
        elif (child := os.fork()) == 0:  # a new process, which need not import torch again
            tell(worker.answer(request))
            os._exit(0)
        elif code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            tell({"missing": f"killed by signal {-code}" if code < 0 else f"ended with {code}"})
