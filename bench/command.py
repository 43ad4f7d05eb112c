#!/usr/bin/env python3
"""Times the command beside plain tools of the system, in one interleaved run, and prints ratios and memory.

Each row races one command with tools that move the same bytes. They take turns. The table has medians of seconds. A ratio
is the time of the tool divided by ours: above 1, the command is faster. The command makes its output durable before it
ends, so `cp` followed by `sync` is its peer. `cp` alone leaves the bytes in the page cache: it races `--durability none`. The
limit of the machine stands beside: the time in which `dd` writes as many bytes to the disk with O_DIRECT.

A second table has the verbs that only read, with a warm page cache. There the limit is the time in which two threads read the
file with pread() into one buffer each, without looking at it. For `verify`, the peer is `cat` of 100 files that hold only the headers.

To add a row, append a Row to ROWS or to READING. `make` gets the folder of the inputs and returns the command lines.
"""

from __future__ import annotations

import argparse
import array
import functools
import json
import os
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEAK = """
import resource, subprocess, sys, time
start = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, code)
"""


@dataclass
class Row:
    """A race: its name, and a function from (program, folder of inputs, output) to the command and the tools."""

    name: str
    make: Callable[[str, Path, Path], tuple[list[str], dict[str, list[str]]]]


def copies(folder: Path, output: Path, source: str) -> dict[str, list[str]]:
    """Return the command lines that copy a file or a folder."""
    copy = f"cp -r '{folder / source}' '{output}'"
    return {
        "cp + sync": ["sh", "-c", f"{copy} && sync $(find '{output}' -type f)"],
        "cp": ["sh", "-c", copy],
    }


def merge(program: str, folder: Path, output: Path) -> tuple[list[str], dict[str, list[str]]]:
    """Join a model of several files."""
    return [program, "merge", str(folder / "model"), "-o", str(output)], copies(folder, output, "model")


def split(program: str, folder: Path, output: Path) -> tuple[list[str], dict[str, list[str]]]:
    """Split a file in about eight."""
    size = str((folder / "one.safetensors").stat().st_size // 8 + (1 << 20))
    command = [program, "split", str(folder / "one.safetensors"), str(output)]
    return command + ["--max-shard-size", size], copies(folder, output, "one.safetensors")


ROWS = [Row("merge", merge), Row("split", split)]


def verify(program: str, folder: Path, _: Path) -> tuple[list[str], dict[str, list[str]]]:
    """Check the headers of 100 files. The files of the peer are as long as the headers."""
    for i in range(100):
        shard = folder / "shards" / f"model-{i + 1:05}-of-00100.safetensors"
        shard.parent.mkdir(exist_ok=True)
        write_tensors(shard, [(f"layers.{i}.{j}.weight", 1000) for j in range(64)])
        with shard.open("rb") as file:
            size = struct.unpack("<Q", file.read(8))[0]
            header = folder / "headers" / shard.name
            header.parent.mkdir(exist_ok=True)
            header.write_bytes(shard.read_bytes()[: 8 + size])
    subprocess.run(
        [program, "index", str(folder / "shards")], check=True, capture_output=True
    )
    headers = ["sh", "-c", f"cat '{folder}'/headers/*"]
    return [program, "verify", "--quiet", str(folder / "shards")], {"cat of the headers": headers}


def stats(program: str, folder: Path, _: Path) -> tuple[list[str], dict[str, list[str]]]:
    """Compute the range, mean and deviation of every tensor."""
    return [program, "stats", str(folder / "one.safetensors")], {}


def sha256(program: str, folder: Path, _: Path) -> tuple[list[str], dict[str, list[str]]]:
    """Compute the SHA-256 of a file."""
    file = str(folder / "one.safetensors")
    return [program, "hash", file], {"sha256sum": ["sha256sum", file]}


def equal(program: str, folder: Path, _: Path) -> tuple[list[str], dict[str, list[str]]]:
    """Compare two equal files."""
    one, other = folder / "one.safetensors", folder / "copy.safetensors"
    if not other.exists():
        shutil.copyfile(one, other)
    return [program, "diff", str(one), str(other)], {"cmp": ["cmp", str(one), str(other)]}


READING = [
    Row("verify", verify),
    Row("stats", stats),
    Row("hash", sha256),
    Row("diff", equal),
]


def write_model(path: Path, mebibytes: int) -> None:
    """Write a file of many tensors: 9 of 10 bytes in large ones, the rest in 200 small ones."""
    large = [(f"layers.{i:02}.weight", mebibytes * (1 << 20) // 16 // 4) for i in range(15)]
    small = [(f"layers.{i:03}.bias", 1000 + 7 * i) for i in range(200)]
    write_tensors(path, large + small)


@functools.cache
def weights(nbytes: int) -> bytes:
    """Return F32 numbers that are distributed as the weights of a model are: normally, without NaN."""
    source = random.Random(1)
    return array.array("f", (source.gauss(0, 0.02) for _ in range(nbytes // 4))).tobytes()


def write_tensors(path: Path, tensors: list[tuple[str, int]]) -> None:
    """Write a file of F32 tensors with these names and numbers of elements, in the order of the names."""
    header: dict[str, dict[str, object]] = {}
    offset = 0
    for name, count in sorted(tensors):
        offsets = [offset, offset + 4 * count]
        header[name] = {"dtype": "F32", "shape": [count], "data_offsets": offsets}
        offset += 4 * count
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    block = weights(1 << 20)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        while offset > 0:
            offset -= file.write(block[: min(offset, len(block))])


def measure(command: list[str], output: Path) -> tuple[float, float]:
    """Run a command and return its seconds and its peak memory in MiB. Removes its output."""
    done = subprocess.run([sys.executable, "-c", PEAK, *command], capture_output=True, text=True)
    seconds, peak, code = done.stdout.split()
    if code != "0":
        sys.exit(f"{' '.join(command)}: exit code {code}\n{done.stderr}")
    if output.is_dir():
        shutil.rmtree(output)
    else:
        output.unlink(missing_ok=True)
    return float(seconds), int(peak) / 1024


def direct_seconds(folder: Path, mebibytes: int) -> float:
    """Return the seconds that the disk needs for these bytes: a write with O_DIRECT."""
    output = folder / "direct"
    count = [f"count={mebibytes // 4}", "bs=4M"]
    start = time.perf_counter()
    command = ["dd", "if=/dev/zero", f"of={output}", "oflag=direct", "conv=fsync", *count]
    failed = subprocess.run(command, capture_output=True).returncode != 0
    output.unlink(missing_ok=True)
    return float("nan") if failed else time.perf_counter() - start


def race(row: Row, program: str, folder: Path, rounds: int, mebibytes: int) -> str:
    """Run one row and return its line of the table."""
    output = folder / "out"
    command, tools = row.make(program, folder, output)
    fast = [*command, "--durability", "none"]
    times: dict[str, list[float]] = {name: [] for name in ["ours", "fast", "disk", *tools]}
    peak = 0.0
    for turn in range(rounds + 1):
        contenders = list({"ours": command, "fast": fast, **tools}.items())
        for name, line in contenders[turn % 4 :] + contenders[: turn % 4]:
            seconds, memory = measure(line, output)
            if turn > 0:  # the first turn fills the page cache
                times[name].append(seconds)
            if name in ("ours", "fast"):
                peak = max(peak, memory)
        times["disk"].append(direct_seconds(folder, mebibytes))
    median = {name: statistics.median(each) for name, each in times.items()}
    cells = [f"{median['ours']:.2f}"]
    cells += [f"{median['cp + sync']:.2f}", f"{median['cp + sync'] / median['ours']:.2f}"]
    cells += [f"{median['disk']:.2f}", f"{median['disk'] / median['ours']:.2f}"]
    cells += [f"{median['fast']:.2f}", f"{median['cp']:.2f}"]
    cells += [f"{median['cp'] / median['fast']:.2f}", f"{peak:.0f}"]
    return f"| {row.name} | " + " | ".join(cells) + " |"


def read_seconds(path: Path) -> float:
    """Return the seconds in which two threads read a file, each one half, 1 MiB at a time."""
    size = path.stat().st_size

    def read(begin: int, end: int) -> None:
        buffer = bytearray(1 << 20)
        with path.open("rb", buffering=0) as file:
            while begin < end:
                begin += os.preadv(file.fileno(), [buffer], begin)

    threads = [
        threading.Thread(target=read, args=(size * i // 2, size * (i + 1) // 2)) for i in (0, 1)
    ]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


def race_readers(row: Row, program: str, folder: Path, rounds: int) -> str:
    """Run one row of READING and return its line of the table."""
    command, tools = row.make(program, folder, folder / "out")
    times: dict[str, list[float]] = {name: [] for name in ["ours", "limit", *tools]}
    peak = 0.0
    for turn in range(rounds + 1):
        contenders = list({"ours": command, **tools}.items())
        for name, line in contenders[turn % 2 :] + contenders[: turn % 2]:
            seconds, memory = measure(line, folder / "out")
            if turn > 0:  # the first turn fills the page cache
                times[name].append(seconds)
            if name == "ours":
                peak = max(peak, memory)
        times["limit"].append(read_seconds(folder / "one.safetensors"))
    median = {name: statistics.median(each) for name, each in times.items()}
    peers = "; ".join(f"{name} {median[name]:.3f}" for name in tools) or "-"
    ratios = "; ".join(f"{median[name] / median['ours']:.2f}" for name in tools) or "-"
    limit = (
        "| - | - "
        if row.name == "verify"
        else f"| {median['limit']:.3f} | {median['limit'] / median['ours']:.2f} "
    )
    return f"| {row.name} | {median['ours']:.3f} | {peers} | {ratios} {limit}| {peak:.0f} |"


def main() -> None:
    """Make the inputs, race all rows and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", help="the command safetensors")
    parser.add_argument("--size", type=int, default=512, metavar="MIB", help="of the model")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--only", default="", help="rows: " + ",".join(row.name for row in ROWS + READING)
    )
    parser.add_argument("--directory", help="where the files go (a temporary folder of it)")
    arguments = parser.parse_args()
    chosen = list(filter(None, arguments.only.split(",")))
    program = str(Path(arguments.program).resolve())
    with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
        folder = Path(name)
        write_model(folder / "one.safetensors", arguments.size)
        source = str(folder / "one.safetensors")
        parts = ["--max-shard-size", str(arguments.size * (1 << 20) // 8)]
        subprocess.run(
            [program, "split", source, str(folder / "model"), *parts],
            check=True,
            capture_output=True,
        )
        print(
            f"{arguments.size} MiB, medians of {arguments.rounds} rounds, {os.cpu_count()} processors\n"
        )
        print(
            "| row | ours, s | cp + sync, s | ratio | disk, s | ratio | not durable, s | cp, s | ratio | peak, MiB |"
        )
        print("|---|---|---|---|---|---|---|---|---|---|")
        for row in ROWS:
            if not chosen or row.name in chosen:
                line = race(row, program, folder, arguments.rounds, arguments.size)
                print(line, flush=True)
        print("\n| row | ours, s | peer, s | ratio | limit, s | ratio | peak, MiB |")
        print("|---|---|---|---|---|---|---|")
        for row in READING:
            if not chosen or row.name in chosen:
                print(race_readers(row, program, folder, arguments.rounds), flush=True)


if __name__ == "__main__":
    main()
