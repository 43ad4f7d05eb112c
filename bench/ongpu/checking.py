"""Whether this package puts into tensors of a device what it puts into those of the CPU. Run in a process of its own."""

from __future__ import annotations

import json
import random
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from comparison import files

BITS = {
    **dict.fromkeys(["BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"], 8),
    **dict.fromkeys(["I16", "U16", "F16", "BF16"], 16),
    **dict.fromkeys(["I32", "U32", "F32"], 32),
    **dict.fromkeys(["I64", "U64", "F64", "C64"], 64),
    "F4": 4,
}
FLOATS = ["F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"]
Report = dict[str, Any]


def write(path: Path, tensors: dict[str, tuple[str, list[int]]], seed: int) -> None:
    """Write a file of random bytes, without any package."""
    source = random.Random(seed)
    header: dict[str, Any] = {}
    parts = []
    end = 0
    for name, (dtype, shape) in tensors.items():
        size = BITS[dtype]
        for length in shape:
            size *= length
        data = source.randbytes(size // 8)
        parts.append(bytes(byte & 1 for byte in data) if dtype == "BOOL" else data)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size // 8]}
        end += size // 8
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def same(one: Any, other: Any) -> bool:
    """Return whether two tensors are alike to the byte, wherever they are."""
    import torch

    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    flat = [t.detach().contiguous().reshape(-1).view(torch.uint8).cpu() for t in (one, other)]
    return bool(torch.equal(*flat))


class Checks:
    """Compares results of `load` on the device with those on the CPU, and keeps what differs."""

    def __init__(self, device: str, folder: Path) -> None:
        self.device = device
        self.folder = folder
        self.passed = 0
        self.failed: list[str] = []
        self.notes: list[str] = []
        self.straight = 0  # loads that went to the device without tensors on the CPU between
        self._watch()

    def _watch(self) -> None:
        from safetensors._read import cuda as _cuda

        original = _cuda.load

        def watched(*given: Any, **options: Any) -> Any:
            loaded = original(*given, **options)
            self.straight += loaded is not None
            return loaded

        _cuda.load = watched

    def load(self, path: Path, device: str, **options: Any) -> dict[str, Any]:
        import safetensors

        return safetensors.load(path, framework="pt", device=device, **options)

    def compare(self, what: str, got: dict[str, Any], wanted: dict[str, Any]) -> None:
        """Hold each tensor against the one of its name."""
        import torch

        kind = torch.device(self.device).type
        if list(got) != list(wanted):
            self.failed.append(f"{what}: other names")
        for name, right in wanted.items():
            good = name in got and got[name].device.type == kind and same(got[name], right)
            self.passed += good
            if not good:
                self.failed.append(f"{what}: {name}")

    def both(self, what: str, path: Path, **options: Any) -> None:
        """Load on the device and on the CPU, and compare."""
        try:
            wanted = self.load(path, "cpu", **options)
        except Exception as error:
            self.notes.append(f"{what}: left out, not on a CPU either ({error})"[:200])
            return
        self.compare(what, self.load(path, self.device, **options), wanted)

    def guarded(self, check: Callable[[], None]) -> None:
        """Run one check; what it raises is a failure."""
        try:
            check()
        except Exception as error:
            self.failed.append(f"{check.__name__}: {type(error).__name__}: {error}"[:300])

    def dtypes(self) -> None:
        for dtype in BITS:
            path = self.folder / f"{dtype}.safetensors"
            write(path, {"a": (dtype, [6, 10, 8]), "none": (dtype, [0, 2]), "b": (dtype, [700, 1024])}, 1)
            self.both(dtype, path)

    def slices(self) -> None:
        path = self.folder / "slices.safetensors"
        shapes = {d: (d, [37, 33, 16]) for d in BITS if d != "F4"}
        write(path, shapes, 2)
        source = random.Random(3)
        for round in range(20):
            slices = {}
            for name in source.sample(list(shapes), 8):
                start = source.randrange(37)
                cut = [slice(start, None), slice(None, -start), slice(None, None, -1 - round % 3), start, slice(9, 3)]
                slices[name] = (source.choice(cut), *source.choice([(), (slice(1, None, 3),), (..., slice(4, 12))]))
            self.both(f"slices {round}", path, slices=slices, threads=round % 5)

    def casts(self) -> None:
        import torch

        path = self.folder / "casts.safetensors"
        write(path, {d: (d, [257, 130]) for d in [*FLOATS, "I32"]}, 4)
        for dtype in (torch.float32, torch.bfloat16, torch.float16, "F8_E4M3", {"F32": "BF16", "F64": "F32"}):
            self.both(f"dtype={dtype}", path, dtype=dtype)
            self.both(f"dtype={dtype}, sliced", path, dtype=dtype, slices={"F32": (slice(None), slice(3, 90))})

    def sizes(self) -> None:
        path = self.folder / "sizes.safetensors"
        small = {f"small.{i}": ("BF16", [1 + i % 7, 129]) for i in range(3000)}
        write(path, {"scalar": ("F32", []), "large": ("F16", [6000, 4096]), **small, "odd": ("U8", [4097])}, 5)
        for limit in (0, 1, 4 << 20):
            self.both(f"memory_limit={limit}", path, memory_limit=limit)
        for cache in ("keep", "fill"):
            with suppress(OSError):  # a system without a cold cache reads warm
                files.evict([str(path)])
            self.both(f"cache={cache}", path, cache=cache)
        self.both("keys", path, keys=["small.7", "large", "scalar"])

    def streams(self) -> None:
        import safetensors

        path = self.folder / "sizes.safetensors"
        with safetensors.stream(path, framework="pt", device=self.device, memory_limit=8 << 20) as stream:
            got = dict(stream)
        wanted = self.load(path, "cpu")
        self.compare("stream()", {name: got[name] for name in wanted}, wanted)

    def load_file(self) -> None:
        import torch

        import safetensors
        from safetensors.torch import load_file

        path = self.folder / "sizes.safetensors"
        wanted = self.load(path, "cpu")
        before = self.straight
        for backend in ("mmap", "pread", "auto"):
            self.compare(f"load_file {backend}", load_file(path, device=self.device, backend=backend), wanted)
        if self.straight != before + 3 and torch.device(self.device).type == "cuda":
            self.failed.append("load_file: tensors came over the CPU")
        with safetensors.safe_open(path, "pt", device=self.device) as f:
            got = dict(f.prefetch())
        self.compare("prefetch", {name: got[name] for name in wanted}, wanted)

    def threads(self) -> None:
        path = self.folder / "sizes.safetensors"
        wanted = self.load(path, "cpu")
        results: list[Any] = [None] * 4

        def one(number: int) -> None:
            results[number] = self.load(path, self.device)

        running = [threading.Thread(target=one, args=(i,)) for i in range(len(results))]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        for result in results:
            self.compare("four threads at once", result or {}, wanted)

    def memory_used_again(self) -> None:
        """Memory that an allocator gives out again while work that it was given before still runs."""
        import torch

        if torch.device(self.device).type != "cuda":
            return
        path = self.folder / "sizes.safetensors"
        wanted = self.load(path, "cpu")
        cuda: Any = torch.cuda
        for stream in (cuda.current_stream(), cuda.Stream()):
            with cuda.stream(stream):
                for _ in range(5):
                    cuda._sleep(20_000_000)
                    torch.full((6000, 4096), 7, dtype=torch.float16, device=self.device)
                    got = self.load(path, self.device)
                    self.compare("memory used again", got, wanted)
                    del got

    def run(self) -> Report:
        """Run all checks."""
        self.guarded(self.dtypes)
        before = self.straight
        for check in (self.slices, self.casts, self.sizes, self.streams, self.load_file, self.threads):
            self.guarded(check)
        self.guarded(self.memory_used_again)
        straight = {"straight": self.straight, "straight_whole": before}
        return {"passed": self.passed, "failed": self.failed, "notes": self.notes, **straight}


def check(device: str) -> Report:
    """Return what was compared on this device, and what was not equal."""
    with tempfile.TemporaryDirectory() as name:
        return Checks(device, Path(name)).run()
