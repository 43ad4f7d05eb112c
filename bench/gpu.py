#!/usr/bin/env python3
"""Builds, checks and times loading into the memory of a CUDA device: one command, without a network.

It needs CMake, a C++20 compiler, Python 3.12 with torch and NumPy, and a device. Without a device it says so and ends
with 0. The checks come first: bench/gpu_check on the driver itself, then the Python package on every dtype, slices and
casts. Then all peers load the same file into tensors on the device, in turns, from the page cache and from the disk. The
limits are a copy of pinned memory to the device, and a read of the file. Peers other than torch come from wheels (--wheels)
or from the interpreter's own packages. The output names each missing peer with the reason. --pretend-cpu runs everything on
the CPU with a driver of the tests, so its times mean nothing.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from comparison import files, report
from comparison.racing import Limits
from ongpu import building, checking, loading, timing

ROWS = (("warm", "model", False, 0.45), ("cold", "model", True, 0.75), ("small", "small", False, 1.0))
SKIPPED = 77


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8, help="time limit of the run (default 8)")
    parser.add_argument("--size", type=int, metavar="MIB", help="size of the file (default 4096; --pretend-cpu: 64)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", nargs="+", choices=[row[0] for row in ROWS], help="only these rows (default: all)")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--wheels", metavar="DIR", type=Path, help="a folder with wheels of nanobind and of the peers")
    parser.add_argument("--directory", metavar="DIR", help="make a temporary folder for the files here")
    parser.add_argument("--build", metavar="DIR", type=Path, help="build here, and keep the build")
    parser.add_argument("--json", metavar="FILE", help="write all results here")
    parser.add_argument("--markdown", metavar="FILE", help="write the printed tables here")
    parser.add_argument("--pretend-cpu", action="store_true", help="try the program without a device")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.pretend_cpu:
        arguments.device = "cpu"
    arguments.size = arguments.size or (64 if arguments.pretend_cpu else 4096)
    return arguments


def refusal() -> str:
    """Return the reason why this machine cannot run the checks, or an empty text."""
    try:
        import torch
    except ImportError as error:
        return f"torch cannot be imported: {error}"
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    if not torch.cuda.is_available():
        return "torch finds no CUDA device"
    return ""


def describe(device: str) -> dict[str, str]:
    """Return the facts of the machine that a reader of the table needs."""
    import torch

    told = {"Machine": report.machine(), "Date": datetime.date.today().isoformat()}
    if device == "cpu":
        return {"PRETENDED": "on the CPU: no figure here is one of a GPU"} | told | {"Torch": torch.__version__}
    about = torch.cuda.get_device_properties(device)
    told["Device"] = f"{about.name}, {files.human(about.total_memory)}, torch {torch.__version__}"
    return told


def check_driver(built: building.Built, fake: bool, seconds: float) -> str:
    """Run bench/gpu_check. Return its last line, or the reason of a failure."""
    if "gpu_check" not in built.programs or (fake and "fake_cuda" not in built.programs):
        return "not run: " + built.missing.get("gpu_check", "the driver of the tests is not built")
    command = [str(built.programs["gpu_check"])] + ([str(built.programs["fake_cuda"])] if fake else [])
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=max(seconds, 1))
    except subprocess.TimeoutExpired:
        return f"FAILED: took longer than {seconds:.0f} s"
    said = (done.stdout + done.stderr).strip().splitlines() or ["nothing"]
    if done.returncode in (0, SKIPPED):
        return said[-1]
    return f"FAILED with {done.returncode}: " + "; ".join(said[-5:])


def check_python(built: building.Built, device: str, seconds: float) -> dict[str, Any]:
    """Run the checks of the package in a process of its own."""
    if "ours" not in built.site:
        return {"missing": built.missing.get("ours", "not built")}
    worker = timing.Worker(Path(__file__), "", sys.executable, device, built.site["ours"])
    worker.command = [sys.executable, __file__, "--check", "--device", device]
    worker.deadline = time.monotonic() + max(seconds, 1)
    reason = worker.launch()
    try:
        return {"missing": reason} if reason else worker.receive()
    finally:
        if worker.process:
            worker.stop()


def lines_of_check(checked: dict[str, Any]) -> list[str]:
    """Return the lines that tell a person the results of the package's checks."""
    if "missing" in checked:
        return [f"Python: not checked: {checked['missing']}"]
    made = [f"Python: {checked['passed']} tensors equal, {len(checked['failed'])} not"]
    made += [f"FAILED: {each}" for each in checked["failed"][:20]]
    if not checked["straight"]:
        made.append("no load was seen to go straight to the device: tensors came over the CPU")
    return [*made, *checked["notes"]]


def table(row: timing.Row) -> list[str]:
    """Return a row as a Markdown table for GitHub."""
    pinned, ours = row.entry("pinned"), row.entry("ours")
    text = [
        f"{row.name}: {row.says}",
        "",
        "| who | first | median | GiB/s | of pinned copy | time / ours | CPU | rounds |",
    ]
    text.append("|---" * 8 + "|")
    for entry in row.entries:
        if not entry.seconds:
            text.append(f"| {entry.label} | {entry.missing} | | | | | | |")
            continue
        told = entry.told()
        cells = [
            entry.label + (f" ({row.limit})" if entry.peer == "system" else ""),
            report.time_of(entry.first) if entry.first else "",
            report.time_of(entry.median),
            f"{row.bytes / entry.median / (1 << 30):.2f}",
            f"{pinned.median / entry.median:.2f}" if pinned else "",
            f"{entry.median / ours.median:.2f}" if ours else "",
            f"{told['cpu']:.2f} s",
            str(len(entry.seconds)),
        ]
        text.append("| " + " | ".join(cells) + " |")
    return text + ([row.note] if row.note else []) + [""]


def race(races: timing.Races, wanted: list[str] | None, deadline: float, say: Any) -> list[timing.Row]:
    """Time as many rows as the time limit allows."""
    rows = []
    for name, data, cold, share in ROWS:
        if wanted and name not in wanted:
            continue
        ends = timing.reserve(deadline, share)
        if ends - time.monotonic() < 2 * timing.SPARE:
            say(f"{name}: left out: no time")
            continue
        row = races.race(name, data, cold, ends)
        rows.append(row)
        for line in table(row):
            say(line)
    return rows


def work(arguments: argparse.Namespace, scratch: Path, say: Any) -> dict[str, Any]:
    """Build, check and time. Return all results for JSON."""
    start = time.monotonic()
    deadline = start + 60 * arguments.minutes
    made: dict[str, Any] = {"pretended": arguments.pretend_cpu, "head": describe(arguments.device)}
    for key, value in made["head"].items():
        say(f"{key}: {value}  ")
    place = (arguments.build or scratch / "built").absolute()
    place.mkdir(parents=True, exist_ok=True)
    built = building.build(place, arguments.wheels, arguments.pretend_cpu, timing.reserve(deadline, 0.55))
    say(f"Built in: {time.monotonic() - start:.0f} s  ")
    for what, reason in built.missing.items():
        say(f"Without {what}: {reason}  ")
    made["missing"] = built.missing
    made["driver"] = check_driver(built, arguments.pretend_cpu, timing.reserve(deadline, 0.3) - time.monotonic())
    say(f"gpu_check: {made['driver']}  ")
    seconds = timing.reserve(deadline, 0.3) - time.monotonic()
    made["python"] = check_python(built, arguments.device, seconds)
    for line in lines_of_check(made["python"]):
        say(line + "  ")
    library = files.Library(scratch, arguments.size)
    limits = Limits(str(built.programs["limits"]), scratch) if "limits" in built.programs else None
    races = timing.Races(Path(__file__), sys.executable, arguments.device, built, library, limits, arguments.rounds)
    try:
        races.start(timing.reserve(deadline, 0.5))
        say("Versions: " + ", ".join(f"{peer} {version}" for peer, version in races.versions.items() if version) + "  ")
        for peer, reason in races.failed.items():
            say(f"{peer} does not take part: {reason}  ")
        say("")
        made["versions"], made["failed"] = races.versions, races.failed
        made["rows"] = [row.told() for row in race(races, arguments.rows, deadline, say)]
    finally:
        races.stop()
    made["seconds"] = time.monotonic() - start
    say(f"Took {made['seconds']:.0f} s.")
    return made


def main() -> None:
    arguments = parse()
    if arguments.serve:
        loading.serve(arguments.serve, arguments.device)
        return
    if arguments.check:
        print(json.dumps(checking.check(arguments.device)))
        return
    reason = "" if arguments.pretend_cpu else refusal()
    if reason:
        print(f"nothing is built, checked or timed: {reason}")
        return
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        print(line, flush=True)

    try:
        with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
            made = work(arguments, Path(name), say)
    finally:  # what was measured before a failure counts, too
        if arguments.markdown:
            Path(arguments.markdown).write_text("\n".join(said) + "\n")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(made, indent=1))
    if "FAILED" in made["driver"] or made["python"].get("failed"):
        sys.exit(1)


if __name__ == "__main__":
    main()
