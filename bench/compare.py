#!/usr/bin/env python3
"""Times the Python package against the reference, in one run on the same files, with a warm page cache.

usage: bench/compare.py --reference PYTHON [--rounds N] [--only NAME,...] [--directory DIR]

Run it with the interpreter of an environment that holds this package, numpy and torch. PYTHON is the interpreter of
another environment, with the PyPI package safetensors 0.8, numpy and torch. Each peer is a process of its own that
does one piece of work when it is told to; the peers take turns, in changing order. Printed are medians, their ratio,
the limit (what the system itself takes for the bytes that must move) and what was asked of the ratio. Needs about
5 GiB of disk and 4 GiB of memory. Absolute figures are noise on a shared machine; ratios within one run count.
"""

from __future__ import annotations

import argparse
import gc
import json
import mmap
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

GIB = 1 << 30


class Work(NamedTuple):
    """One row of the table. limit: the name of what the system takes for the same bytes."""

    name: str
    says: str
    wanted: float | None
    limit: str | None


WORKS = [
    Work("numpy_load", "numpy load_file, 1 GiB, arrays returned", 100, None),
    Work("numpy_load_read", "numpy load_file, 1 GiB, every byte read", 4, "sum"),
    Work("torch_small", "torch load_file, 10,000 tensors of 16 KiB", 4, None),
    Work("torch_load", "torch load_file, 1 GiB, tensors returned", None, None),
    Work("torch_pread", "torch load_file, 1 GiB, backend pread", 5, "read"),
    Work("open_keys", "safe_open and keys, 100,000 tensors", 5, "read_header"),
    Work("slice_row", "get_slice of one row of 1 MiB, backend pread", None, None),
    Work("save_none", "numpy save_file, 1 GiB, durability none", 1.5, "write"),
    Work("save_full", "numpy save_file, 1 GiB, durability full", None, "write_durable"),
    Work("torch_save_none", "torch save_file, 1 GiB, durability none", None, "write"),
    Work("torch_save_small", "torch save_file, 10,000 tensors of 16 KiB, none", None, None),
    Work("save_bytes", "numpy save (to bytes), 1 GiB", None, "copy"),
]
LIMITS = {
    "sum": "numpy sum over 1 GiB in memory",
    "read": "pread of 1 GiB into fresh memory, one thread",
    "read_header": "pread of the header into fresh memory",
    "write": "write of 1 GiB, not synced",
    "write_durable": "fallocate, O_DIRECT writes of 2 MiB, fdatasync",
    "copy": "memcpy of 1 GiB into fresh memory",
}


class Worker:
    """What one peer does. Runs in its own process and interpreter."""

    def __init__(self, directory: Path, durability: bool) -> None:
        import numpy as np

        self.np = np
        self.directory = directory
        self.durability = durability  # whether save functions know the word
        self.source = np.memmap(directory / "bytes", dtype=np.uint8, mode="c")

    def _save(self, save: Callable[..., None], tensors: dict[str, Any], durability: str) -> None:
        target = self.directory / f"saved-{os.getpid()}"
        options = {"durability": durability} if self.durability else {}
        save(tensors, str(target), **options)

    def _arrays(self) -> dict[str, Any]:
        data = self.source.view(self.np.float32).reshape(16, 4096, 4096)
        return {f"t{i}": self.np.asarray(data[i]) for i in range(16)}

    def numpy_load(self) -> object:
        from safetensors.numpy import load_file

        return load_file(self.directory / "large.safetensors")

    def numpy_load_read(self) -> object:
        return [int(a.view(self.np.uint64).sum()) for a in self.numpy_load().values()]  # type: ignore[attr-defined]

    def torch_small(self) -> object:
        from safetensors.torch import load_file

        return load_file(self.directory / "small.safetensors")

    def torch_load(self) -> object:
        from safetensors.torch import load_file

        return load_file(self.directory / "large.safetensors")

    def torch_pread(self) -> object:
        from safetensors.torch import load_file

        return load_file(self.directory / "large.safetensors", backend="pread")

    def open_keys(self) -> object:
        from safetensors import safe_open

        with safe_open(self.directory / "many.safetensors", "np") as f:
            return f.keys()

    def slice_row(self) -> object:
        from safetensors import safe_open

        with safe_open(self.directory / "large.safetensors", "np", backend="pread") as f:
            return f.get_slice("t3")[64:128]

    def save_none(self) -> None:
        from safetensors.numpy import save_file

        self._save(save_file, self._arrays(), "none")

    def save_full(self) -> None:
        from safetensors.numpy import save_file

        self._save(save_file, self._arrays(), "full")

    def torch_save_none(self) -> None:
        import torch
        from safetensors.torch import save_file

        self._save(save_file, {k: torch.from_numpy(a) for k, a in self._arrays().items()}, "none")

    def torch_save_small(self) -> None:
        import torch
        from safetensors.torch import save_file

        data = torch.from_numpy(self.np.asarray(self.source[: 10_000 * 16384]))
        self._save(save_file, {f"t{i}": row.clone() for i, row in enumerate(data.view(10_000, -1))}, "none")

    def save_bytes(self) -> object:
        from safetensors.numpy import save

        return save(self._arrays())

    # The limits, measured by one of the workers.

    def limit_sum(self) -> object:
        return int(self.np.asarray(self.source).view(self.np.uint64).sum())

    def _pread(self, path: Path, size: int) -> object:
        target = mmap.mmap(-1, size)
        descriptor = os.open(path, os.O_RDONLY)
        done = 0
        while done < size:
            done += os.preadv(descriptor, [memoryview(target)[done:]], done)
        os.close(descriptor)
        return target

    def limit_read(self) -> object:
        return self._pread(self.directory / "bytes", GIB)

    def limit_read_header(self) -> object:
        path = self.directory / "many.safetensors"
        return self._pread(path, path.stat().st_size)

    def limit_write(self) -> None:
        with open(self.directory / "limit", "wb", buffering=0) as out:
            view = memoryview(self.source)
            for begin in range(0, GIB, 16 << 20):
                out.write(view[begin : begin + (16 << 20)])

    def limit_write_durable(self) -> None:
        path = self.directory / "limit"
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_DIRECT", 0), 0o600)
        os.posix_fallocate(descriptor, 0, GIB)
        block = mmap.mmap(-1, 2 << 20)  # aligned to a page
        for begin in range(0, GIB, len(block)):
            os.pwrite(descriptor, block, begin)
        os.fdatasync(descriptor)
        os.close(descriptor)

    def limit_copy(self) -> object:
        return self.source.copy()

    def run(self, name: str) -> dict[str, float]:
        """Time one piece of work; say also what it did to memory and how much it read."""
        for old in self.directory.glob(f"saved-{os.getpid()}"):
            old.unlink()
        gc.collect()
        with open("/proc/self/clear_refs", "w") as clear:
            clear.write("5")  # the peak starts anew
        before = _status("VmRSS")
        read_before = _bytes_read()
        cpu = resource.getrusage(resource.RUSAGE_SELF)
        start = time.perf_counter()
        result = getattr(self, name)()
        seconds = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_SELF)
        report = {
            "seconds": seconds,
            "cpu": after.ru_utime + after.ru_stime - cpu.ru_utime - cpu.ru_stime,
            "peak": (_status("VmHWM") - before) * 1024,
            "read": _bytes_read() - read_before,
        }
        del result
        return report


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0


def _bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def serve(directory: Path, durability: bool) -> None:
    """Do what lines on standard input name, and answer each with a line of JSON."""
    import safetensors

    worker = Worker(directory, durability)
    print(safetensors.__version__, flush=True)
    for line in sys.stdin:
        print(json.dumps(worker.run(line.strip())), flush=True)


class Peer:
    """A process that works when it is told to."""

    def __init__(self, label: str, python: str, directory: Path, ours: bool) -> None:
        self.label = label
        command = [python, __file__, "--serve", str(directory)] + (["--durability"] if ours else [])
        environment = dict(os.environ)
        if not ours:
            environment.pop("PYTHONPATH", None)  # it may lead to this package
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout
        self.version = self.process.stdout.readline().strip()

    def do(self, name: str) -> dict[str, float]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.label} ended while doing {name}")
        answer: dict[str, float] = json.loads(line)
        return answer


def prepare(directory: Path) -> None:
    """Write the files that all peers read, without any of them."""
    chunk = random.Random(1).randbytes(64 << 20)
    with open(directory / "bytes", "wb") as out:
        for _ in range(GIB // len(chunk)):
            out.write(chunk)

    def write(name: str, entries: list[tuple[str, str, list[int], int]]) -> None:
        header: dict[str, Any] = {}
        end = 0
        for tensor, dtype, shape, size in entries:
            header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
            end += size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(directory / name, "wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            while end > 0:
                out.write(chunk[: min(end, len(chunk))])
                end -= min(end, len(chunk))

    write("large.safetensors", [(f"t{i}", "F32", [4096, 4096], 64 << 20) for i in range(16)])
    write("small.safetensors", [(f"model.layers.{i}.weight", "F32", [64, 64], 16384) for i in range(10_000)])
    names = sorted(f"model.layers.{i // 1024}.mlp.experts.{i % 1024}.weight" for i in range(100_000))
    write("many.safetensors", [(name, "BF16", [1], 2) for name in names])


def race(peers: list[Peer], name: str, rounds: int) -> dict[str, dict[str, float]]:
    """Medians of each peer, taken in turns; the first turn is not counted."""
    reports: dict[str, list[dict[str, float]]] = {peer.label: [] for peer in peers}
    for turn in range(rounds + 1):
        for peer in random.sample(peers, len(peers)):
            report = peer.do(name)
            if turn > 0:
                reports[peer.label].append(report)
    return {
        label: {key: statistics.median(r[key] for r in each) for key in each[0]}
        for label, each in reports.items()
    }


def print_row(work: Work, result: dict[str, dict[str, float]], limit: float | None) -> None:
    ours, theirs = result["ours"], result["reference"]
    ratio = theirs["seconds"] / ours["seconds"]
    wanted = "" if work.wanted is None else f"{work.wanted:g} x" + ("" if ratio >= work.wanted else " MISSED")
    of_limit = "" if limit is None else f"{ours['seconds'] / limit:.2f} x limit"
    print(
        f"{work.says:50s} {ours['seconds'] * 1e3:9.2f} ms {theirs['seconds'] * 1e3:9.2f} ms {ratio:8.1f} x  "
        f"{wanted:12s} {of_limit:14s} peak {ours['peak'] / 2**20:6.0f} / {theirs['peak'] / 2**20:6.0f} MiB  "
        f"read {ours['read'] / 2**20:7.2f} / {theirs['read'] / 2**20:7.2f} MiB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", metavar="PYTHON", help="interpreter of the reference's environment")
    parser.add_argument("--ours", metavar="PYTHON", default=sys.executable, help="by default the one that runs this")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="rows, by name: " + " ".join(w.name for w in WORKS))
    parser.add_argument("--directory", default=None, help="where the files go (a temporary folder of it)")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--durability", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.durability)
        return
    if not arguments.reference:
        parser.error("--reference is needed")
    chosen = set(filter(None, arguments.only.split(",")))
    with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
        directory = Path(name)
        prepare(directory)
        peers = [
            Peer("ours", arguments.ours, directory, True),
            Peer("reference", arguments.reference, directory, False),
        ]
        if peers[0].version == peers[1].version:
            sys.exit(f"both peers are safetensors {peers[0].version}")
        print(f"ours is safetensors {peers[0].version}, the reference {peers[1].version}")
        print(f"{'warm cache, medians of ' + str(arguments.rounds):50s} {'ours':>12s} {'reference':>12s} {'ratio':>10s}  wanted")
        limits: dict[str, float] = {}
        for work in WORKS:
            if chosen and work.name not in chosen:
                continue
            if work.limit and work.limit not in limits:
                limits[work.limit] = race(peers[:1], "limit_" + work.limit, 3)["ours"]["seconds"]
            print_row(work, race(peers, work.name, arguments.rounds), limits.get(work.limit or ""))
        for key, seconds in limits.items():
            print(f"limit: {LIMITS[key]:60s} {seconds * 1e3:9.2f} ms")


if __name__ == "__main__":
    main()
